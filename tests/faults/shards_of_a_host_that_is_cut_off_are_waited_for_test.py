"""A host whose shards lie nowhere else is cut off for longer than the budget.
The others do not end the job: they wait for longer than --agent-grace, say for
whom, and go on without a step lost when it is back.

Covers: replication.c plan.c"""
import os
import time

from house import PATIENCE, claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 1
SHARDS = ("--bytes", 30000, "--shard-bytes", 200000)


def waits(job):
    status = job.status("h1") or {}
    return [w["what"] for w in status.get("waiting", []) if w["kind"] == "parts"]


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3", "--agent-grace",
                             "100ms"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2, *SHARDS),
                     env={"REGROUP_LOG": "info,agent=debug"},
                     detect=f"{BUDGET_S * PATIENCE}s") as job:
        job.wait_world(3)
        job.wait_step(10)
        generation = job.generation()
        hosts.cut("h3")
        until(lambda: job.alive() and "host h3 is lost" in job.text("h1"), 20,
              "the others leave h3 out")
        said = until(lambda: waits(job), 20, "the leader says that it waits")
        claim("newest commits: h3" in said[0], f"it waits for {said[0]}")
        time.sleep(BUDGET_S * PATIENCE)
        claim(job.alive() and job.generation() == generation,
              "the others went on without h3's shards")
        hosts.heal()
        job.wait_world(3, above=generation)
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0], *SHARDS))


main(test)
