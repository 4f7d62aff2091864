"""Once rg_run has returned RG_OK rank, size and sets stay, and collectives
work until a member has gone, however it went: then no rank waits for it.

Covers: worker/run.c"""
import os

from hosts import Hosts, HostsJob
from house import BUILD, Job, claim, main_all

LIFECYCLE = os.path.join(BUILD, "tests", "lifecycle")


def check(text, size):
    for rank in range(size):
        for what in ("world", "made"):
            claim(f"rank {rank} of {size} {what} RG_OK" in text,
                  f"rank {rank} has no world behind rg_run")
    for rank in range(2):
        claim(f"rank {rank} of {size} pair RG_OK" in text,
              f"rank {rank} can't use a set whose members are all there")
    for rank in range(size - 1):
        for what in ("left", "again"):
            claim(f"rank {rank} of {size} {what} RG_ERR_PEER_LOST" in text,
                  f"rank {rank} did not learn which rank has gone")
    claim("rank -1" not in text, "a rank is lost")


def test_finalizing_worker():
    with Job(["-n", "3"], [LIFECYCLE, "after", "finalize"]) as job:
        job.finish()
        check(job.text(), 3)
        claim("which has called rg_finalize" in job.text(), job.text())


def test_silent_end():
    with Job(["-n", "3"], [LIFECYCLE, "after", "exit"]) as job:
        job.finish()
        check(job.text(), 3)


def test_killed_worker():
    with Job(["-n", "3"], [LIFECYCLE, "after", "kill"]) as job:
        job.finish()
        check(job.text(), 3)


def test_on_another_host():
    with Hosts(2) as hosts:
        for how in ("finalize", "kill"):
            job = HostsJob(hosts, ["--min", "4", "--max", "4"],
                           ["--slots", "2"], [LIFECYCLE, "after", how],
                           job=how)
            with job:
                job.finish()
                check(job.text(), 4)


main_all(globals())
