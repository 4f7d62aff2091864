"""Connections of h1 are reset, one pair of hosts after the other: the same
members go on. When a pair is named a second time within a minute, the host that
more others name goes, though it is the one that leads.

Covers: suspect.c links.c"""
import os

from house import claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob


def reset(hosts, job, other):
    """The next generation, which the reset has led to."""
    generation = job.generation()
    claim(hosts.reset("h1", other) > 0, f"h1 and {other} are not connected")
    until(lambda: job.alive() and job.generation() > generation, 20,
          "a new generation")
    job.wait_step(job.step() + 10)


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 2)) as job:
        job.wait_world(3)
        job.wait_step(10)
        for other in ("h2", "h3"):
            reset(hosts, job, other)
            claim(job.events("step")[-1]["size"] == 3,
                  f"a first break with {other} has cost a host its place")
        generation = job.generation()
        reset(hosts, job, "h2")
        job.wait_world(2, above=generation)
        stays = {e["host"] for e in job.events("step")
                 if e["generation"] > generation and e["size"] == 2}
        claim(stays == {"h2", "h3"}, f"{stays} stay, h1 was named by two")
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
