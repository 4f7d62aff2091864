"""Replicated memory that differs between ranks is named, with ranks and step:
once in a warning, or in an error if REGROUP_CHECK_STATE is strict. So is a
buffer in which no byte changes. Buffers that are registered as such are not
named.

Covers: compare.c"""
import os

from house import BUILD, Job, claim, main_all

MISUSE = os.path.join(BUILD, "tests", "misuse")
DIFFERS = "buffer stats is not equal on all ranks in step %d: %s"
STILL = "no byte of buffer still has changed over 10 commits"


def said(mode, check="auto", code=0, workers=3):
    with Job(["-n", str(workers), "--max-restarts", "1"], [MISUSE, mode],
             env={"REGROUP_CHECK_STATE": check}) as job:
        job.finish(code)
        for name in ("counter", "running", "table"):
            claim(f"buffer {name}" not in job.text(), f"{name} is named")
        return job.text()


def test_a_difference_is_said_once():
    text = said("state_differs")
    claim(text.count(DIFFERS % (1, "ranks 1, 2 have other bytes than rank 0"))
          == 1, "the difference is not said once")
    claim("is something that a step changes not registered?" in text,
          "no line asks for the cause")


def test_a_buffer_that_stays_as_it_is_is_said_once():
    text = said("state_differs")
    claim(text.count(STILL) == 1, "the buffer is not named once")


def test_it_is_an_error_where_that_is_wanted():
    text = said("state_differs", check="strict", code=3, workers=2)
    error = "commit RG_ERR_MISMATCH: buffer stats is not equal on all ranks in "
    error += "step 1: rank 1 has other bytes than rank 0"
    ranks = {line.split(" | ")[0] for line in text.splitlines()
             if error in line}
    claim(len(ranks) == 2, f"not every rank has the error: {ranks}")


def test_ranks_that_lose_a_peer_meanwhile_get_its_error():
    # rank 1 has heard from rank 0 what rank 0 has: both know that they differ
    with Job(["-n", "2", "--max-restarts", "1"], [MISUSE, "state_differs"],
             env={"REGROUP_CHECK_STATE": "strict", "REGROUP_FAILPOINT":
                  "compare.differs:rank1:start1:kill"}) as job:
        job.finish(3)
        claim("commit RG_ERR_MISMATCH: replicated memory is not equal on all "
              "ranks in step 1" in job.text(), "no rank reports a loss")
        claim("commit RG_ERR_PEER_LOST" not in job.text(),
              "a rank is told that it has lost another")


def test_a_late_difference_is_found_every_so_many_commits():
    claim("buffer stats" not in said("state_differs_late"),
          "later commits are compared, too")
    text = said("state_differs_late", check="5")
    claim(text.count(DIFFERS % (21, "")) == 1, "step 21 is not named once")


def test_a_late_difference_is_found_after_a_change():
    with Job(["-n", "3"], [MISUSE, "state_differs_late"], env={
            "REGROUP_FAILPOINT":
            "commit.after_agree:rank2:step24:gen1:start1:kill"}) as job:
        job.finish()
        claim(job.text().count(DIFFERS % (25, "")) == 1,
              "step 25, the first after the change, is not named")


def test_a_large_state_is_compared_over_several_commits():
    large = "buffer large is not equal on all ranks in step %d: rank 1 has"
    text = said("large_differs", workers=2)
    claim(text.count(large % 2) == 1, "the second commit's part is not named")
    claim(text.count("buffer large is not equal") == 1, "it is named again")
    text = said("large_differs", check="strict", code=3, workers=2)
    claim(large % 1 in text, "something was saved before all was compared")


def test_a_large_state_delays_the_first_commit_after_a_change_less():
    with Job(["--min", "1", "--max", "3", "--max-restarts", "0"],
             [MISUSE, "large_differs"], env={
                 "REGROUP_FAILPOINT":
                 "commit.after_agree:rank2:step1:gen1:start1:kill"}) as job:
        job.finish()
        # 8 bytes and 96 MiB: 8 MiB in step 2, and 64 at a commit then, since
        # the next change begins it all again
        claim("buffer large is not equal on all ranks in step 4: rank 1 has"
              in job.text(), "the third commit's part is not named")


def test_it_can_be_switched_off():
    text = said("state_differs", check="off")
    claim("buffer stats" not in text and STILL not in text, "it is not off")
    said("state_differs", check="sometimes", code=3)


main_all(globals())
