"""A host that etcd does not answer can't take part in a change that is only
announced, so a newcomer waits; as soon as etcd answers it the newcomer is in,
though no key says so.

Covers: suspect.c plan.c"""
import os
import time

from house import PATIENCE, claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 1
NO_ETCD_S = 1 + 2 * BUDGET_S  # a second without an answer, then the budget


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "2", "--max", "3", "--start-timeout",
                             "500ms"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2),
                     detect=f"{BUDGET_S * PATIENCE}s",
                     only=["h1", "h2"]) as job:
        job.wait_world(2)
        generation = job.generation()
        hosts.cut_between(["h2"], ["e1"])
        until(lambda: "etcd does not answer" in job.text("h2"), 20,
              "h2 has lost etcd")
        time.sleep(NO_ETCD_S * PATIENCE)
        job.agent("h3")
        until(lambda: hosts.keys("/regroup/v1/test/lead/host/h3"), 20,
              "h3 has a record")
        time.sleep(BUDGET_S * PATIENCE)
        claim(job.generation() == generation,
              "a change was announced that h2 can't take part in")
        hosts.heal()
        began = time.monotonic()
        job.wait_world(3, above=generation)
        took = time.monotonic() - began
        claim(took < 6 * PATIENCE, f"h3 has waited {took:.1f} s more")
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
