"""A daemon of the MPI that SIGKILL does not end, as one in uninterruptible
sleep (a frozen control group stands in for NFS and drivers): no launch begins
meanwhile, and the log and the status say what is waited for. After
--launch-timeout its host leaves, and the next launch is on the others.

Covers: mpirun/mpirun.c sweep.c plan.c leader.c
"""

import os
import signal

from freezer import FREEZER, frozen
from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, program_of, skip, until
from mpijob import HOSTS_ENV, SOLVER, launches, need_solver, wait_launch


def waits_on(job, host):
    return [wait["what"] for wait in (job.status(host) or {}).get(
        "waiting", []) if wait["kind"] == "sweep"]


def test():
    need_solver()
    if not os.access(os.path.join(FREEZER, "cgroup.procs"), os.W_OK):
        skip("needs root and a version 1 freezer at " + FREEZER)
    with Hosts(3) as hosts, HostsJob(
            hosts, ["--mpi", "-n", "2", "--launch-timeout", "4s",
                    "--agent-grace", "1s"], ["--slots", "1"],
            [SOLVER, UNTIL_FINISH[1]], env=HOSTS_ENV, detect="500ms") as job:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        wait_launch(job, 1)
        leads, there = job.leader(), job.host_of(1)
        daemon = next(pid for pid in hosts.pids(there)
                      if program_of(pid) == "orted")
        rank = job.pid(1)
        with frozen(daemon):
            os.kill(rank, signal.SIGKILL)
            told = until(lambda: waits_on(job, there), 20,
                         f"{there} says what it waits for")[0]
            claim(f"process {daemon}, state D, of launch 1" in told, told)
            told = until(lambda: waits_on(job, leads), 20,
                         f"{leads} says what it waits for")[0]
            claim(f"the end of launch 1 on {there}" in told, told)
            claim(len(launches(job)) == 1, "another launch has begun")
            job.lost.add(there)
            code = job.agents[there].wait(30)
            claim(code == 71, f"{there} has left with code {code}")
            wait_launch(job, 2)
        claim(there not in launches(job)[-1][2], f"{launches(job)}")
        job.finish()
        job.check(is_mpi=True)


main(test)
