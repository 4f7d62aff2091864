"""SIGKILL of agents while workers start, connect, register and come to the
door: the next agent accepts each worker, whether or not the dead one knew it.

Covers: takeover.c slots.c"""
import contextlib
import glob
import os
import signal
import time

from house import Job, claim, fault_free, main, trainer, until

TRAIN = ("--steps", 60, "--step-ms", 2)


def test():
    for wait_ms in (0, 2, 5, 10, 15, 20, 30, 40, 60, 90):
        with Job(["-n", "4", "--start-timeout", "20s"],
                 trainer(*TRAIN, "--alloc")) as job:
            until(lambda: job.alive() and glob.glob(
                job.folder + "/run/test/agent-*.sock"), 10, "its socket")
            agent = job.agent()
            time.sleep(wait_ms / 1000)  # the moment is the fault
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)
            job.finish()
            claim(len({e["pid"] for e in job.events()}) == 4,
                  f"{wait_ms} ms: a worker died with the agent")
            job.check(fault_free(*TRAIN))


main(test)
