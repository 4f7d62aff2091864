"""The path of h2 loses packets above 1000 bytes, small ones and heartbeats
pass. A member on that path loses its place, and all hosts say why; it waits
outside, delays no other host, and comes back when the path is whole again.

Covers: paths.c beat.c"""
import os
import subprocess

from house import REGROUP, claim, fault_free, main, trainer, until
from hosts import Hosts, HostsJob


def waits(job, host, kind):
    status = job.status(host) or {}
    return [w["what"] for w in status.get("waiting", []) if w["kind"] == kind]


def pauses(job, worker, since_ns):
    """Between steps of a worker, in s, the longest first."""
    times = [e["t_ns"] for e in job.events("step")
             if e["worker"] == worker and e["t_ns"] > since_ns]
    return sorted(((b - a) / 1e9 for a, b in zip(times, times[1:])),
                  reverse=True)


def test():
    with Hosts(3, wire=True) as hosts, \
            HostsJob(hosts, ["--min", "1", "--max", "3"], ["--slots", "1"],
                     trainer("--until", os.path.join(hosts.folder, "until"),
                             "--step-ms", 5, "--coll-bytes", 60000),
                     detect="500ms") as job:
        job.wait_world(3)
        job.wait_step(10)
        generation = job.generation()
        hosts.wire.rule("h2", "h*", most=1000)
        hosts.wire.rule("h*", "h2", most=1000)
        job.wait_world(2, above=generation)
        text = job.text()
        claim("has acknowledged none of" in text, "no break is told")
        claim("look at the MTU" in text, "no line mentions the MTU")
        until(lambda: waits(job, "h2", "paths"), 20, "h2 says why it is outside")
        doctor = hosts.popen(
            "h1", [REGROUP, "doctor", "--peer", "h2", "--job", job.name,
                   "--etcd", hosts.urls], env=hosts.environment("h1"),
            stdout=subprocess.PIPE, text=True)
        begin = job.events("step")[-1]["t_ns"]
        generation = job.generation()
        job.wait_step(job.step() + 300)
        claim(job.generation() == generation and
              pauses(job, "h1.0", begin)[0] < 1, "h2 holds the others up")
        found = doctor.communicate(timeout=60)[0]
        claim(doctor.returncode == 1 and
              "packets of 1500 bytes do not come through" in found and
              "of 576 bytes do" in found, f"doctor sees no hole: {found}")
        hosts.heal()
        job.wait_world(3, above=generation)
        with open(os.path.join(hosts.folder, "until"), "w", encoding="utf-8"):
            pass
        job.finish()
        job.check(fault_free("--steps", job.final_state()[0],
                             "--coll-bytes", 60000))


main(test)
