"""A rank crashes with core dumps on, or all ranks at once: each dump is whole,
and then comes the next launch.

Covers: mpirun/sweep.c mpirun/mpirun.c slots.c workers.c
"""

import glob
import os
import resource

from house import UNTIL_FINISH, Job, claim, main, skip
from mpijob import MPI_ENV, SOLVER, launches, need_solver, wait_launch

BALLAST_MB = 128


def crash(where, cores):
    """Ranks have a process id in the names of their cores, or one name."""
    with Job(["--mpi", "-n", "2"],
             [SOLVER, UNTIL_FINISH[1], "--ballast", str(BALLAST_MB)],
             env=dict(MPI_ENV, REGROUP_FAILPOINT=where)) as job:
        wait_launch(job, 2)
        found = glob.glob(os.path.join(job.folder, "core*"))
        claim(len(found) in (1, cores), f"cores: {found}")
        for core in found:
            dumped = os.stat(core).st_blocks * 512
            claim(dumped > BALLAST_MB << 20, f"{core} has {dumped} bytes")
        job.finish()
        claim("crashed with signal 11" in job.text(), "why")
        claim(len(launches(job)) == 2, "two launches were expected")


def test():
    need_solver()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as name:
        if hard == 0 or name.read().strip() != "core":
            skip("this machine does not write cores where a program runs")
    crash("commit.before_agree:rank1:step30:start1:gen1:segv", 1)
    crash("commit.before_agree:step30:start1:gen1:segv", 2)


main(test)
