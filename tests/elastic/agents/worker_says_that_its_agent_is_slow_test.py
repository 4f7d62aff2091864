"""The agent is stopped while a worker asks it for memory: the worker says what
it waits for, once, and goes on when the agent does.

Covers: segments.c connect.c"""
import os
import signal
import time

from house import UNTIL_FINISH, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


SAID = "waits for the agent's answer to rg_alloc"


def idle_s(job):
    """Since the newest step."""
    steps = [e["t_ns"] for e in job.events("step")]
    return (time.monotonic_ns() - max(steps)) / 1e9


def test():
    with Job(["-n", "2"],
             trainer(*TRAIN, "--reserve", 1, "--reserve-at", 100)) as job:
        job.wait_step(20)
        agent = job.agent()
        os.kill(agent, signal.SIGSTOP)
        job.wait_step(99)
        until(lambda: idle_s(job) > 2.5, 20, "a worker that waits")
        os.kill(agent, signal.SIGCONT)  # it prints for its workers
        until(lambda: SAID in job.text(), 20, "the worker's word")
        job.wait_step(150)
        claim(job.text().count(SAID) == 1, "it was not said once")
        claim(job.generation() == 1, "the wait cost a generation")
        job.finish()
        job.check(trained=TRAIN)


main(test)
