"""Copying shards goes on whichever process is killed meanwhile: an agent that
sends them, one that keeps them, a worker; and a host that has no room for its
part leaves with one sentence, and the others go on.

Covers: replication.c"""

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, fault_free, main, trainer, until

SHARDS = ("--bytes", 30000, "--step-ms", 5, "--shard-bytes", 2000000)
TRAINING = ("--steps", 120, *SHARDS)
COPIED = ("--replicas", 1)


def an_agent_dies(hosts, place):
    kill = {"REGROUP_FAILPOINT": f"{place}:step40:start1:kill"}
    with HostsJob(hosts, ["--min", "2", "--max", "4"], ["--slots", "2"],
                  trainer(*TRAINING, *COPIED), env={"h2": kill}, job=place) as job:
        job.finish()
        job.check(state=fault_free(*TRAINING))
        claim("was killed by signal 9" in job.text("h2"), "no process died")


def a_worker_dies(hosts):
    with HostsJob(hosts, ["--min", "2", "--max", "4"], ["--slots", "2"],
                  trainer(*UNTIL_FINISH, *SHARDS, *COPIED), job="worker") as job:
        job.wait_step(40)
        before = job.generation()
        job.kill(rank=2)
        job.wait_world(4, above=before)
        job.finish()
        job.check(trained=SHARDS)


def a_host_is_full(hosts):
    """3 slots of half of it on each of two hosts, and as much again of the
    other's: h2 has room for a third."""
    with HostsJob(hosts, ["--min", "2", "--max", "4", "--start-timeout",
                          "500ms"],
                  {"h1": ["--slots", "2"],
                   "h2": ["--slots", "2", "--vault-max", "2200000"]},
                  trainer(*UNTIL_FINISH, *SHARDS, *COPIED), job="full",
                  only=["h1"]) as job:
        job.wait_step(10)
        job.agent("h2")
        job.lost.add("h2")
        until(lambda: "h2 can't hold its part: its shards need" in
              job.text("h2"), 20, "h2 says why it leaves")
        job.finish()
        job.check(trained=SHARDS)


def test():
    with Hosts(2) as hosts:
        an_agent_dies(hosts, "copy.source")
        an_agent_dies(hosts, "copy.sink")
        a_worker_dies(hosts)
        a_host_is_full(hosts)


main(test)
