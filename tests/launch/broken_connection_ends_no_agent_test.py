"""A connection to a host that breaks ends no agent there: the launcher connects
again, and the workers are the same. It can be stopped by the new connection. A
host that the launcher with the job's etcd does not reach again leaves.

Covers: cli/attach.c remote_cmd.c host_launcher.c"""
import os
import signal

from house import (UNTIL_FINISH, Etcd, agent_of, claim, main, need_etcd,
                   trainer, until)
from launching import LaunchedJob

TRAIN = (*UNTIL_FINISH, "--step-ms", 5)
AGAIN = "h2 | regroup: the agent of this host is watched again"


def relayed(flags):
    job = LaunchedJob(["-H", "h1:1,h2:1", "--min", "1", *flags],
                      trainer(*TRAIN))
    job.write("relay-h2")
    return job


def pids(job):
    return {worker["pid"] for worker in job.workers().values()}


def break_and_connect(job, times):
    """The second one is the connection of a process that only watches."""
    job.wait_world(2)
    before, changes = pids(job), job.answer()["changes_total"]
    for n in range(1, times + 1):
        job.break_connection("h2")
        until(lambda n=n: job.text().count(AGAIN) == n, 20,
              "it is connected again")
    step = job.step()
    until(lambda: job.step() > step + 100, 20, "it trains on")
    claim(pids(job) == before and job.answer()["changes_total"] == changes,
          f"the world has changed: {job.text()}")


def kill_agent(job):
    """Of h2; the next one has the dead one's socket."""
    with open(f"/proc/{job.pid(1)}/stat", encoding="ascii") as stat:
        agent = int(stat.read().rsplit(")", 1)[1].split()[1])
    with open(f"/proc/{agent}/stat", encoding="ascii") as stat:
        supervisor = int(stat.read().rsplit(")", 1)[1].split()[1])
    os.kill(agent, signal.SIGKILL)
    until(lambda: agent_of(supervisor) not in (None, agent), 20,
          "another agent")


def with_another_etcd():
    with Etcd() as etcd, relayed(["--etcd", etcd.url]) as job:
        break_and_connect(job, times=2)
        kill_agent(job)
        job.run("scale", "--max", "1", job.name)
        until(lambda: list(job.hosts()) == ["h1"], 20, "h2 has left")
        job.signal(signal.SIGINT)
        claim(job.process.wait(30) == 130, job.text())
        job.await_none()


def test():
    need_etcd()
    with relayed([]) as job:  # the launcher's etcd
        break_and_connect(job, times=1)
        job.write("down-h2")
        job.break_connection("h2")
        with_another_etcd()  # while h2 waits
        job.wait_world(1)
        job.finish()
        job.check(trained=TRAIN)
        job.await_none()


main(test)
