"""The agent is killed while etcd is away, and then a worker: the others leave
the generation at once, though the next agent has no key of the job yet. It
makes no difference which of the two is killed first. When etcd is back the job
goes on.

Covers: publish.c takeover.c"""
import os
import signal

from house import UNTIL_FINISH, Etcd, Job, claim, main, trainer, until

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)


def take_over(job):
    agent = job.agent()
    os.kill(agent, signal.SIGKILL)
    return agent


def wait_agent(job, before):
    until(lambda: job.agent() not in (None, before), 10, "another agent")


def left(job):
    return {e["worker"] for e in job.events("leave") if e["generation"] == 1}


def strike(worker_first):
    with Etcd() as etcd, \
            Job(["--min", "2", "--max", "3", "--etcd", etcd.url,
                 "--agent-grace", "20s"], trainer(*TRAIN)) as job:
        job.wait_world(3)
        job.wait_step(30)
        victim = job.pid(2)
        etcd.kill()
        if worker_first:
            agent = job.agent()
            os.kill(agent, signal.SIGSTOP)
            os.kill(victim, signal.SIGKILL)
            os.kill(agent, signal.SIGKILL)
            wait_agent(job, agent)
        else:
            wait_agent(job, take_over(job))
            step = job.step()
            job.wait_step(step + 20)
            os.kill(victim, signal.SIGKILL)
        until(lambda: len(left(job)) == 2, 10, "the survivors' leave")
        claim(job.answer()["etcd"]["state"] == "away", "etcd is not away")
        etcd.start()
        job.wait_world(3, above=1)
        job.finish(seconds=90)
        job.check(trained=TRAIN)


def test():
    strike(worker_first=False)
    strike(worker_first=True)


main(test)
