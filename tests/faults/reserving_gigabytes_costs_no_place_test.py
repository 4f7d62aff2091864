"""A worker reserves gigabytes, before rg_run and in the middle of a step, and
starts again with them: its host is heard all the while, and keeps its place.

Covers: vault.c"""
import os
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 2)
MIB = 2048  # takes longer than the budget


def causes(job):
    return [c["cause"] for c in (job.status() or {"changes": []})["changes"]]


def test():
    with Hosts(2) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2"], ["--slots", "1"],
                     trainer(*TRAIN, "--reserve", MIB, "--reserve-at", 200),
                     detect="500ms") as job:
        job.wait_world(2)
        before = job.generation()
        until(lambda: "reserved: RG_OK" in job.text(), 60, "the memory")
        step = job.step()
        job.wait_step(step + 20)
        claim(job.generation() == before,
              f"the memory cost a generation: {causes(job)}")
        os.kill(job.pid(1), signal.SIGKILL)
        job.wait_world(2, above=before, seconds=60)
        claim(not any("host" in cause for cause in causes(job)),
              f"a host lost its place: {causes(job)}")
        job.finish()
        job.check(trained=TRAIN)


main(test, tries=3)  # the budget is short
