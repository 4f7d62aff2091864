"""Local buffers, of another size on each rank and none on one: a rank that is
started again gets its own part, a world of other ranks gets what the program's
function deals out, and a job of another size goes on from the checkpoint, whose
tools know the kind. Without a function other ranks are refused, both numbers
named.

Covers: state/local.c"""

import os

from checkpoints import directory, kill_all, names, shown, steps
from house import BUILD, UNTIL_FINISH, Job, claim, main, until

RODS = os.path.join(BUILD, "tests", "rods")


def rods(*words):
    return [RODS, UNTIL_FINISH[1], *map(str, words)]


def check(job, size):
    claim(job.text().count("ended with right cells") == size,
          f"not all {size} ranks ended with right cells:\n{job.text()}")


def a_rank_is_replaced():
    with Job(["-n", "3"], rods("fixed", 0)) as job:
        job.wait_step(10)
        job.kill(1)
        job.wait_world(3, above=1)
        job.wait_step(job.step() + 5)
        job.finish()
        check(job, 3)


def other_ranks(path):
    flags = ["--checkpoint-dir", path, "--checkpoint-every", "10"]
    with Job(["--min", "2", "--max", "4", *flags],
             rods("redistribute", 0)) as job:
        job.wait_world(4)
        job.wait_step(10)
        job.kill(2)
        job.wait_world(3, above=1)
        job.wait_world(4, above=2)
        job.wait_step(job.step() + 5)
        first = until(lambda: shown(job, "step"), 30, "a checkpoint")
        until(lambda: shown(job, "step") > first, 30, "another checkpoint")
        kill_all(job)
        claim("wrong cells" not in job.text(), job.text())
        newest = os.path.join(path, names(path, ".rgck")[-1])
        text = job.run("checkpoint", "show", newest).stdout
        claim("cells" in text and "local" in text, text)
        claim(job.run("checkpoint", "verify", path).returncode == 0,
              "a checkpoint is not whole")
    newest = steps(path)[-1]
    with Job(["-n", "2", *flags], rods("redistribute", 0, "--load")) as job:
        job.wait_step(newest + 5)
        job.finish()
        claim(f"loaded step {newest}\n" in job.text(), job.text())
        claim("dealt 4 parts to 2" in job.text() or
              "dealt 3 parts to 2" in job.text(), job.text())
        check(job, 2)


def without_a_function(path):
    flags = ["--checkpoint-dir", path, "--checkpoint-every", "5"]
    with Job(["-n", "3", *flags], rods("fixed", 0)) as job:
        until(lambda: shown(job, "step"), 30, "a checkpoint")
        job.finish()
    with Job(["-n", "2", "--max-restarts", "0", *flags],
             rods("fixed", 0, "--load")) as job:
        job.finish(code=1)
        claim("buffer cells has parts of 3 ranks, and there are 2 ranks now"
              in job.text(), job.text())
    with Job(["-n", "3", *flags], rods("fixed", 0, "--load")) as job:
        job.wait_step(job.step() + 5)
        job.finish()
        check(job, 3)


def test():
    a_rank_is_replaced()
    with directory() as path:
        other_ranks(path)
    with directory() as path:
        without_a_function(path)


main(test)
