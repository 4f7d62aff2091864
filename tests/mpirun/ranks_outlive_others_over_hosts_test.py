"""Under --mpi=ulfm on two hosts the loss of a rank is outlived in place, on
either host; the loss of a host is another launch, since it ends mpirun. The
program calls MPI on MPI_COMM_WORLD until the first loss. Ranks know the
addresses of all others from MPI_Init on: MPI would wait for a dead one's.

Covers: in_place.c mend.c plan.c mpirun.c flavour.c
"""

import os
import signal

from hosts import Hosts, HostsJob
from house import UNTIL_FINISH, claim, main, skip, until
from mpijob import HOSTS_ENV, IN_PLACE, launches, need_solver, variables_of


def wait_world(job, count, launch, size):
    """The newest world that is told of."""
    def is_there():
        told = launches(job)
        return len(told) == count and told[-1][:2] == (launch, size)
    until(lambda: is_there() or not job.alive(), 30,
          f"{size} ranks of launch {launch}")
    job.wait_step(job.step() + 5)


def test():
    need_solver()
    with Hosts(3, renames=True) as hosts:
        if not hosts.has_nets:
            skip("hosts on one machine need network namespaces, so root")
        with HostsJob(hosts, ["--mpi=ulfm", "--min", "2", "--max", "4"],
                      ["--slots", "2"], [IN_PLACE, UNTIL_FINISH[1], "--bare"],
                      env=HOSTS_ENV) as job:
            wait_world(job, 1, 1, 4)
            pids = [job.pid(rank) for rank in range(4)]
            claim(int(variables_of(pids[0])["OMPI_MCA_mpi_add_procs_cutoff"])
                  >= 4, "addresses are looked up when they are needed")
            os.kill(pids[3], signal.SIGKILL)
            wait_world(job, 2, 1, 3)
            os.kill(pids[0], signal.SIGKILL)
            wait_world(job, 3, 1, 2)
            left = [job.pid(rank) for rank in range(2)]
            claim(left == pids[1:3], f"{left} are left of {pids}")
            job.kill_host(job.host_of(1))
            wait_world(job, 4, 2, 4)
            job.finish()
            job.check(is_mpi=True)
            claim("steps lost: 0" in job.text(), "a committed step was lost")


main(test)
