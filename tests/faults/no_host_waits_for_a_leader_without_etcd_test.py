"""A worker dies on the leader's host, which etcd does not answer: no reason is
published. The others, which the leader has told, go on without it once another
of them leads; when etcd answers the host again it joins.

Covers: suspect.c"""
import os
import signal

from house import PATIENCE, UNTIL_FINISH, main, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 1


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3"], ["--slots", "1"],
                     trainer(*UNTIL_FINISH, "--step-ms", 5),
                     detect=f"{BUDGET_S * PATIENCE}s") as job:
        hosts.need_nets()
        job.wait_world(3)
        job.wait_step(10)
        leader = job.leader()
        victim = job.pid(next(r for r in range(3) if job.host_of(r) == leader))
        hosts.cut_between([leader], ["e1"])
        os.kill(victim, signal.SIGKILL)
        until(lambda: job.alive() and job.events("step")[-1]["generation"] > 1,
              30, "the others step on without the leader's host")
        hosts.heal()
        job.wait_world(3, above=2)
        job.finish()
        job.check(trained=UNTIL_FINISH)


main(test)
