"""Connections of h3 to the agents of h1 and h2 are lost, its heartbeats are
not: it stays outside, says why, and delays no other host; when they get
through, it joins.

Covers: paths.c"""
import os

from house import claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob


def longest_pause(job, since_ns):
    """Between steps of one worker that was there all the time, in s."""
    times = [e["t_ns"] for e in job.events("step")
             if e["worker"] == "h1.0" and e["t_ns"] > since_ns]
    return max((b - a for a, b in zip(times, times[1:])), default=0) / 1e9


def waits(job, host):
    status = job.status(host) or {}
    return [w["what"] for w in status.get("waiting", []) if w["kind"] == "paths"]


def test():
    with Hosts(3) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "6", "--start-timeout", "500ms"],
                     ["--slots", "2"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 5), detect="500ms",
                     only=["h1", "h2"]) as job:
        job.wait_world(4)
        job.wait_step(10)
        generation = job.generation()
        for host in ("h1", "h2"):
            hosts.block_tcp(host, job.agent_port(host), sender="h3")
        begin = job.events("step")[-1]["t_ns"]
        job.agent("h3")
        said = until(lambda: waits(job, "h3"), 20, "h3 says what it waits for")
        claim("a path to host h1" in said[0], said)
        job.wait_step(job.step() + 400)
        claim(longest_pause(job, begin) < 1, "members stood still")
        claim(job.generation() == generation, "the newcomer was proposed")
        for host in ("h1", "h2"):
            hosts.unblock_tcp(host)
        job.wait_world(6, above=generation)
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0]))


main(test)
