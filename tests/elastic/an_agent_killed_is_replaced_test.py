"""SIGKILL of the agent, again and again while workers train: the next one takes
them over, nobody dies, no generation ends, and the training is as if nothing
had been."""
import os
import signal

from house import Job, claim, fault_free, main, trainer, until

TRAIN = ("--steps", 300, "--step-ms", 5)


def kill_agent(job):
    pid = job.agent()
    os.kill(pid, signal.SIGKILL)
    until(lambda: job.agent() not in (None, pid), 10, "another agent")
    until(job.status, 10, "its status")


def test():
    with Job(["--min", "1", "--max", "3"], trainer(*TRAIN)) as job:
        job.wait_step(30)
        before = job.workers()
        for _ in range(3):
            step = job.step()
            kill_agent(job)
            job.wait_step(step + 20)
        claim(job.workers().keys() == before.keys(),
              "the world is another than before")
        job.finish()
        job.survivors(before)
        claim(job.generation() == 1, "a generation ended with the agent")
        job.check(fault_free(*TRAIN))


main(test)
