"""When a host is lost, its MPI ends the ranks of the others, which die before it
is known why. That is no failure of theirs: with --max-restarts 0 the next launch
begins all the same, with each in its place, and its line names the host as the
cause. A rank that fails by itself then ends the job.

Covers: mpirun/mpirun.c slots.c plan.c records.c
"""

import os
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, skip
from mpijob import HOSTS_ENV, SOLVER, launches, need_solver, wait_launch


def test():
    need_solver()
    with Hosts(4) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi", "-n", "2", "--max-restarts", "0"],
                      ["--slots", "1"], [SOLVER, UNTIL_FINISH[1]],
                      env=HOSTS_ENV) as job:
            for number, victim in ((1, 1), (2, 0)):  # mpirun runs at rank 0's
                wait_launch(job, number)
                job.wait_step(job.step() + 5)
                there, other = job.host_of(victim), job.host_of(1 - victim)
                job.kill_host(there)
                wait_launch(job, number + 1)
                told = max(launches(job))
                claim(told[5] == f"after host {there} is lost", f"{told}")
                claim("(0 rolled back)" in told[3], f"{told}")
                claim(job.host_of(1 - victim) == other, f"{told}")
            job.wait_step(job.step() + 5)
            os.kill(job.pid(1), signal.SIGKILL)
            job.finish(code=137)
            claim("used up its --max-restarts" in job.text(), "why")
            claim("steps lost: 0" in job.text(), "a committed step was lost")


main(test)
