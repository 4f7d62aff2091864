"""The newest commits lie on one host only, since the other's worker was away.
That host is cut off until its lease ends: the other one has a worker again and
an older commit, and waits rather than repeat committed steps at
once.

Covers: resume.c plan.c"""
import os
import signal
import time

from house import PATIENCE, claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 1


def test():
    env = {"REGROUP_LOG": "info,agent=debug",
           "h2": {"REGROUP_FAILPOINT": "door:start2:stop"}}
    with Hosts(2) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "2"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2), env=env,
                     detect=f"{BUDGET_S * PATIENCE}s") as job:
        job.wait_world(2)
        job.wait_step(10)
        os.kill(job.workers()[1]["pid"], signal.SIGKILL)
        job.wait_world(1, above=1)  # of h1 alone, until h2's is killed again
        generation = job.generation()
        job.wait_step(job.step() + 5)
        hosts.cut("h1")
        until(lambda: "may still be training: h1" in job.text("h2"), 30,
              "h2 leads and says for whom it waits")
        time.sleep(BUDGET_S * PATIENCE)
        claim(job.generation() == generation,
              "h2 has begun with an older commit")
        hosts.heal()
        job.wait_world(2, above=generation)
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
