"""SIGKILL of agents on several hosts, the leader's as well, and twice at the same
time: their supervisors start the next ones; no host is lost, and no generation
ends.

Covers: takeover.c peers.c"""
import os
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, agent_of, claim, main, trainer, until

TRAINING = (*UNTIL_FINISH, "--step-ms", 5)


def kill(job, *hosts):
    supervisors = [job.agents[host].pid for host in hosts]
    agents = [until(lambda k=k: agent_of(k), 10, "an agent")
              for k in supervisors]
    for pid in agents:
        os.kill(pid, signal.SIGKILL)
    for supervisor, pid in zip(supervisors, agents):
        until(lambda: agent_of(supervisor) not in (None, pid), 10,
              "another agent")
    for host in hosts:
        until(lambda: job.status(host), 10, f"the status of {host}")


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "6", "--max", "6"], ["--slots", "2"],
                     trainer(*TRAINING)) as job:
        job.wait_step(30)
        before = job.workers()
        leader = job.leader()
        others = [h for h in hosts.names if h != leader]
        for victims in ([others[0]], [leader], others, hosts.names):
            step = job.step()
            kill(job, *victims)
            job.wait_step(step + 30)
        claim(job.leader() == leader, "another host leads")
        job.finish()
        claim(job.generation() == 1,
              "an agent's death has ended a generation")
        job.survivors(before)
        job.check(trained=TRAINING)


main(test)
