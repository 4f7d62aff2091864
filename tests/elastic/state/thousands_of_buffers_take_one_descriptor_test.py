"""Thousands of registered buffers lie in one memory: supervisor, agent and
workers hold a few descriptors, whatever the limit of a worker is, and each
buffer survives the kill of the agent, of a worker, and of both.

Covers: vault.c"""
import os
import re
import resource
import signal

from house import BUILD, UNTIL_FINISH, Job, claim, main, until

BUFFERS = 2000
COMMAND = [os.path.join(BUILD, "tests", "many_buffers"), str(BUFFERS),
           UNTIL_FINISH[1]]
FEW = 100


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def begun(job):
    return [int(n) for n in
            re.findall(r"begins with (\d+) open files", job.text())]


def check_few(job):
    for what, pid in (("supervisor", job.process.pid), ("agent", job.agent())):
        n = descriptors(pid)
        claim(n < FEW, f"the {what} has {n} descriptors")
    claim(max(begun(job)) < FEW, f"workers have {begun(job)} descriptors")


def kill_agent(job):
    before = job.agent()
    os.kill(before, signal.SIGKILL)
    until(lambda: job.agent() not in (None, before), 20, "another agent")


def test():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    with Job(["-n", "2"], COMMAND) as job:
        job.wait_world(2)
        job.wait_step(3)
        check_few(job)
        kill_agent(job)
        job.kill(1)
        until(lambda: len(begun(job)) == 4, 40, "both begin again")
        job.wait_step(job.step() + 3)
        check_few(job)
        job.finish()
        wrong = [line for line in job.text().splitlines() if " has " in line
                 and "| buffer" in line]
        claim(not wrong, f"{len(wrong)} buffers are wrong: {wrong[:3]}")


main(test)
