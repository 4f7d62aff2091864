"""Connections to h2's agent are lost, its heartbeats and workers' connections
are not. After a reset of all connections a commit waits for copies: the
wait is reported, and ends the generation. It is the second break, so one of
the two goes, and the other goes on training.

Covers: replication.c"""
import os

from house import claim, main, trainer, until
from hosts import Hosts, HostsJob


def test():
    with Hosts(2) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "4"], ["--slots", "2"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 5, "--shard-bytes", 65536,
                             "--replicas", 1)) as job:
        job.wait_world(4)
        job.wait_step(10)
        generation = job.generation()
        hosts.block_tcp("h2", job.agent_port("h2"))
        claim(hosts.reset("h1", "h2") > 0, "h1 and h2 are not connected")
        job.wait_world(2, seconds=40, above=generation)
        step = job.step()
        job.wait_step(step + 20)
        said = job.text()
        for text in ("waits for host h2 to store copies",
                     "could not store copies on h2"):
            claim(text in said, f"no line says: {text}")
        until(lambda: (job.status() or {}).get("generation", 0) > 1, 10,
              "status shows it")


main(test)
