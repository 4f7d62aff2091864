"""A host that drains and alone holds the commit goes as soon as the next world
has stored it, also when its agent is killed just before it goes.

Covers: drain.c fetch.c"""
import os
import time

from house import PATIENCE, claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 4


SLOW = {"REGROUP_FAILPOINT": "door:start1:sleep1000"}  # h2 is not in yet


def drain_only_holder(hosts, name, env=None):
    stop = os.path.join(hosts.folder, f"until-{name}")
    with HostsJob(hosts, ["--min", "1", "--max", "2", "--start-timeout",
                          "200ms"], ["--slots", "1"],
                  trainer("--until", stop, "--step-ms", 2), job=name,
                  env={"h2": SLOW, **(env or {})},
                  detect=f"{BUDGET_S * PATIENCE}s", only=["h1"]) as job:
        job.wait_step(10)
        job.agent("h2")
        until(lambda: hosts.keys(f"/regroup/v1/{name}/lead/host/h2"), 20,
              "h2 has a record")
        job.drain("h1")
        until(lambda: "came from h1" in job.text("h2"), 30,
              "the commit comes to h2")
        began = time.monotonic()
        until(lambda: job.agents["h1"].poll() is not None, 60, "h1 goes")
        took = time.monotonic() - began
        claim(took < BUDGET_S / 2 * PATIENCE,
              f"h1 has stayed for {took:.1f} s")
        job.wait_world(1, above=1)
        with open(stop, "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))
        return job.text("h1")


def test():
    with Hosts(2, nets=False) as hosts:
        drain_only_holder(hosts, "calm")
        kill = {"REGROUP_FAILPOINT": "agent.leave:start1:kill"}
        text = drain_only_holder(hosts, "killed", {"h1": kill})
        claim("agent.leave strikes" in text, "no agent was killed")


main(test)
