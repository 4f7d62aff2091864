"""A local buffer with one copy of each part: the host that is lost is replaced,
and its ranks get their parts from the copies, each of its own length.

Covers: state/local.c chunk.c replication.c resume.c"""

import os

from hosts import Hosts, HostsJob
from house import BUILD, UNTIL_FINISH, claim, main

RODS = os.path.join(BUILD, "tests", "rods")


def test():
    with Hosts(3) as hosts:
        with HostsJob(hosts, ["--min", "4", "--max", "6", "--agent-grace", "2s",
                              "--elastic-timeout", "20s"], ["--slots", "2"],
                      [RODS, UNTIL_FINISH[1], "redistribute", "1"]) as job:
            job.wait_world(6)
            job.wait_step(20)
            before = job.generation()
            job.fail_power("h2")
            job.wait_world(4, above=before)
            job.wait_step(job.step() + 10)
            job.finish()
            claim("wrong cells" not in job.text("h1"), job.text("h1"))
            claim(job.text().count("ended with right cells") == 4, job.text())
            claim("dealt 6 parts to 4" in job.text(), job.text())


main(test)
