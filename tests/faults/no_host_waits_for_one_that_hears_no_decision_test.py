"""A host acks a change, and etcd falls silent to it before the decision: its
workers, which do not learn of it, would keep all others waiting. The others go
on without them while it is still cut off, though a newcomer waits to be let in
at their next step end; when etcd answers the host again it joins.

Covers: generation.c suspect.c"""
import os
import signal

from house import PATIENCE, UNTIL_FINISH, claim, main, trainer, until
from hosts import Hosts, HostsJob
from scene import is_stopped

BUDGET_S = 1


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "6"], ["--slots", "2"],
                     trainer(*UNTIL_FINISH, "--step-ms", 2),
                     detect=f"{BUDGET_S * PATIENCE}s",
                     env={"REGROUP_LOG": "info,agent=debug",
                          "h3": {"REGROUP_FAILPOINT": "agent.ack:gen2:stop"}}
                     ) as job:
        hosts.need_nets()
        job.wait_world(6)
        job.wait_step(10)
        deaf = job.agent_pid("h3")
        job.kill(1)  # of h1; its replacement is the newcomer
        until(lambda: is_stopped(deaf), 20, "h3's agent stops before its ack")
        hosts.cut_between(["h3"], ["e1"])
        os.kill(deaf, signal.SIGCONT)
        until(lambda: "generation 2: 5 workers" in job.text("h1"), 20,
              "the change is decided with h3's ack")
        until(lambda: job.alive() and job.events("step")[-1]["generation"] > 2,
              20, "the others step on without h3")
        claim("generation 2: 5 workers" not in job.text("h3"),
              "h3 has heard the decision")
        hosts.heal()
        job.wait_world(6, above=2)
        job.finish()
        job.check(trained=UNTIL_FINISH)


main(test)
