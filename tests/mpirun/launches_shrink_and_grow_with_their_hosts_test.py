"""With --min and --max a launch has as many ranks as there are slots: after the
loss of a host the next one is smaller, without waiting for another, and closes
ranks; when the host is back, the launch after that has all ranks again. Below
--min the job ends with 75 after --elastic-timeout, so that it can be queued
again, and no committed step was lost until then.

Covers: mpirun/mpirun.c plan.c
"""

import json
import os
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, skip, until
from mpijob import HOSTS_ENV, SOLVER, launches, need_solver


def wait_ranks(job, number, size):
    """A launch of that number or a later one has so many ranks, and steps."""
    until(lambda: any(one[0] >= number and one[1] == size
                      for one in launches(job)) or not job.alive(), 30,
          f"launch {number} with {size} ranks")
    job.wait_step(job.step() + 5)
    return max(launches(job))


def is_free(job, host):
    """Its record offers its slot to a launch."""
    key = f"/regroup/v1/{job.name}/lead/host/{host}"
    record = json.loads(job.hosts.keys(key).get(key, "{}"))
    return any(slot[7] for slot in record.get("workers", []))


def test():
    need_solver()
    with Hosts(3) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi", "--min", "2", "--max", "3",
                              "--elastic-timeout", "2s"], ["--slots", "1"],
                      [SOLVER, UNTIL_FINISH[1]], env=HOSTS_ENV) as job:
            wait_ranks(job, 1, 3)
            there = job.host_of(1)
            job.kill_host(there)
            told = wait_ranks(job, 2, 2)
            claim(there not in told[2], f"{told}")
            job.agent(there)
            until(lambda: job.alive() and is_free(job, there), 20,
                  f"{there} is back")
            os.kill(job.pid(1), signal.SIGKILL)
            told = wait_ranks(job, told[0] + 1, 3)
            claim(there in told[2], f"{told}")
            for rank in 0, 1:
                job.lost.add(job.host_of(rank))
            for host in sorted(job.lost):
                job.kill_host(host)
            job.finish(code=75)
            claim("steps lost: 0" in job.text(), "a committed step was lost")
    cannot_shrink()


def cannot_shrink():
    """The sentence has the flag that was given."""
    with Hosts(2) as hosts, \
            HostsJob(hosts, ["--mpi", "-n", "2", "--elastic-timeout", "1s"],
                     ["--slots", "1"], [SOLVER, UNTIL_FINISH[1]],
                     env=HOSTS_ENV) as job:
        wait_ranks(job, 1, 2)
        there = job.host_of(1)
        job.lost.add(there)
        job.kill_host(there)
        job.finish(code=75)
        claim("(1, with -n 2)" in job.text() and
              "add hosts or lower -n" in job.text(), "why")


main(test)
