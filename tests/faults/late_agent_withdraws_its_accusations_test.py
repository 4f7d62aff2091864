"""h2's agent has accused h3's, which is stopped. Then h2's own agent is late:
it takes back what it said of others, and says nothing new of them.

Covers: suspect.c beat.c"""
import json
import os
import signal
import time

from house import PATIENCE, claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob

BUDGET_S = 2 * PATIENCE
PREFIX = "/regroup/v1/test/lead/"


def ids_of(hosts):
    """{host: its id}, as long as their leases last."""
    return {key.rpartition("/")[2]: json.loads(text)["id"]
            for key, text in hosts.keys(PREFIX + "host/").items()}


def accusation(hosts, of, by):
    """By ids: the value of that key; None: there is none."""
    return hosts.keys(f"{PREFIX}susp/{of}/{by}") or None


def is_withdrawn(found):
    return found is not None and "withdrawn" in "".join(found.values())


def test():
    with Hosts(3, nets=False) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2), detect=f"{BUDGET_S}s") as job:
        job.wait_world(3)
        late, silent = job.agent_pid("h2"), job.agent_pid("h3")
        h1, h2, h3 = map(ids_of(hosts).get, hosts.names)
        os.kill(silent, signal.SIGSTOP)
        job.wait_world(2, above=1)
        until(lambda: accusation(hosts, h3, h2), 20, "h2 accuses h3")
        claim(not is_withdrawn(accusation(hosts, h3, h2)),
              "h2 has withdrawn before it was late")
        os.kill(late, signal.SIGSTOP)
        time.sleep(BUDGET_S * 0.55)  # late, but not silent enough to go
        os.kill(late, signal.SIGCONT)
        until(lambda: is_withdrawn(accusation(hosts, h3, h2)), 10,
              "h2 takes back what it said")
        claim(accusation(hosts, h1, h2) is None,
              "h2 has accused h1 because it was late itself")
        before = job.generation()
        os.kill(silent, signal.SIGCONT)
        job.wait_world(3, above=before)
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
