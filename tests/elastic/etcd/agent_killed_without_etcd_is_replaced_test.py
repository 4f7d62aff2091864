"""SIGKILL of the agent while etcd is away: the next one has its workers without
asking etcd; training goes on, and later the same lease and leader are there.

Covers: takeover.c"""
import os
import signal

from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def test():
    with Etcd() as etcd, \
            Job(["-n", "2", "--etcd", etcd.url, "--agent-grace", "1s"],
                trainer(*TRAIN)) as job:
        job.wait_step(30)
        before = job.workers()
        etcd.kill()
        agent = job.agent()
        os.kill(agent, signal.SIGKILL)
        until(lambda: job.agent() not in (None, agent), 10, "another agent")
        step = job.step()
        job.wait_step(step + 250)  # longer than the grace
        claim(job.answer()["etcd"]["state"] == "away", "etcd is not away")
        etcd.start()
        until(lambda: job.workers() and job.answer()["leader"], 30,
              "the job's keys")
        claim({w["pid"] for w in job.workers().values()} ==
              {w["pid"] for w in before.values()}, "other workers than before")
        job.finish(seconds=90)
        claim(job.generation() == 1, "the kill changed the membership")
        job.check(trained=TRAIN)


main(test)
