"""Kubernetes deletes all pods of a job: each agent gets SIGTERM, and together
they stop the job with 143 at once; none waits for --deadline. A file that a
preStop hook makes sends one pod alone away.

Covers: end.c drain.c"""

import os
import time

from hosts import Hosts, HostsJob
from house import PATIENCE, UNTIL_FINISH, claim, main, trainer, until

DEADLINE_S = 25


def ends(job, host):
    until(lambda: job.agents[host].poll() is not None, 20, f"{host} ends")
    return job.agents[host].poll()


def test():
    with Hosts(3, nets=False) as hosts:
        hook = os.path.join(hosts.folder, "notice")
        flags = {h: ["--notice", "kubernetes:" + os.path.join(
            hosts.folder, "notice" if h == "h3" else "none")]
            for h in hosts.names}
        with HostsJob(hosts, ["--min", "1", "--max", "3", "--slots", "1",
                              "--deadline", f"{DEADLINE_S}s"],
                      flags, trainer(*UNTIL_FINISH, "--step-ms", 5)) as job:
            job.wait_world(3)
            job.drained.add("h3")
            with open(hook, "x", encoding="ascii"):
                pass
            job.wait_world(2, above=1)
            claim(ends(job, "h3") == 0, job.text("h3"))

            job.lost.update(hosts.names)
            began = time.monotonic()
            for host in ("h1", "h2"):
                job.agents[host].terminate()
            codes = [ends(job, host) for host in ("h1", "h2")]
            took = time.monotonic() - began
            claim(codes == [143, 143], f"{codes}: {job.text()}")
            claim(took < DEADLINE_S * PATIENCE, f"it took {took} s")
            claim("all hosts are to leave" in job.text("h1"), job.text("h1"))
            job.check()


main(test)
