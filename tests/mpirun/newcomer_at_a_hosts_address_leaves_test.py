"""A host that joins a running job under --mpi with the address of another one
disturbs no launch. When the next one begins it leaves, with 64 and one sentence,
and the job goes on, with all ranks where they were.

Covers: plan.c leader.c snapshot.c
"""

import os
import signal

from hosts import Hosts, HostsJob
from house import REGROUP, UNTIL_FINISH, claim, main, skip, until
from mpijob import (HOSTS_ENV, SOLVER, check_value, launches, need_solver,
                    wait_launch)


def join_on(job, host, name, log):
    """An agent beside that of the host."""
    return job.hosts.popen(
        host, [REGROUP, "agent", "--etcd", job.hosts.urls, "--job", job.name,
               "--host", name, *job.flags, "--slots", "2", "--",
               *job.command], env=job.hosts.environment(host, **HOSTS_ENV),
        stdout=log, stderr=log)


def test():
    need_solver()
    with Hosts(2, renames=True) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi", "--min", "2", "--max", "6",
                              "--start-timeout", "1s"],
                      ["--slots", "2"], [SOLVER, UNTIL_FINISH[1]],
                      env=HOSTS_ENV) as job:
            wait_launch(job, 1)
            with open(os.path.join(job.folder, "h9.log"), "wb") as log:
                twin = join_on(job, "h2", "h9", log)
            until(lambda: any(h["id"] == "h9" for h in
                              (job.status() or {"hosts": []})["hosts"]), 20,
                  "h9 has joined")
            job.wait_step(job.step() + 20)
            claim(twin.poll() is None and len(launches(job)) == 1,
                  "a newcomer is no reason for a launch")
            os.kill(job.pid(1), signal.SIGKILL)
            wait_launch(job, 2)
            claim(twin.wait(20) == 64, f"h9 ended with {twin.returncode}")
            claim(f"host h2 has this host's address, {hosts.address('h2')}, so "
                  "mpirun can't tell them apart" in job.text("h9"),
                  job.text("h9"))
            claim(launches(job)[1][1:3] == launches(job)[0][1:3],
                  f"{launches(job)}")
            job.finish()
            job.check(is_mpi=True)
            check_value(job, 4)


main(test)
