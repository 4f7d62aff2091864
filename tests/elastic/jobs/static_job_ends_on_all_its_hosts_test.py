"""All ranks of a static world may be on one of two hosts. However they and that
host end, the other one, whose processes wait for a place that no world will
give them, ends too: with 0 if they have ended well, with the code of a host
that ends early otherwise. Until then nothing ends it.

Covers: plan.c end.c"""
import os

from hosts import Hosts, HostsJob
from house import BUILD, UNTIL_FINISH, claim, main, until


def waiting(job):
    """Processes of h2 at the door."""
    status = job.status() or {"hosts": []}
    return sum(w["state"] == "door" for h in status["hosts"]
               if h["id"] == "h2" for w in h["workers"])


def begin(hosts, name, program):
    return HostsJob(hosts, ["-n", "3"], ["--slots", "3"], program, job=name,
                    only=["h1"])


def form(job):
    until(lambda: job.text("h1").count("begins") == 3, 20, "h1 has the world")
    job.agent("h2")
    until(lambda: waiting(job) == 3, 20, "processes of h2 wait for a place")
    claim(job.agents["h2"].poll() is None, "h2 has ended before the world")


def test():
    sums = os.path.join(BUILD, "tests", "sums")
    with Hosts(2) as hosts:
        with begin(hosts, "well", [sums, "0", "0", UNTIL_FINISH[1]]) as job:
            form(job)
            job.finish(0, seconds=15)
            claim("the job was done before this worker got a place in it"
                  in job.text("h2"), "processes of h2 are told nothing")
        with begin(hosts, "left", [sums, "100000", "0"]) as job:
            form(job)
            job.agents["h1"].terminate()
            job.finish(143, seconds=15)


main(test)
