"""Under `regroup run --mpi=ulfm` ranks that lose others go on in place: in the
same processes, with a communicator of those that are left and the sets of a
rule on it, and sets of the program's own communicators (rg_set_create_mpi),
from the last commit. That is so for a rank that is killed in a
collective of MPI, for rank 0, for one that is stopped, and for two at once.
Below --min all are launched again.

Covers: in_place.c mend.c lost.c mpirun.c plan.c flavour.c mpirun_line.c
rank_main.c state_resume.c launch.c settings.c program.c world.c
"""

import os
import re
import signal

from house import UNTIL_FINISH, Job, claim, main, until
from mpijob import IN_PLACE, MPI_ENV, launches, need_solver

RANKS = 5
JOINED = re.compile(r"process (\d+) is rank (\d+) of (\d+), step (\d+), at")


def world_of(job, size, launch=1):
    """The processes of the newest world, by rank, once it has that size and
    has ended a step."""
    def newest():
        return [[int(word) for word in line]
                for line in JOINED.findall(job.text())[-size:]]

    def is_there():
        return ([line[2] for line in newest()] == [size] * size
                and {one[0] for one in launches(job)}
                == set(range(1, launch + 1)))
    until(lambda: is_there() or not job.alive(), 30, f"a world of {size}")
    job.wait_step(job.step() + 5)
    return [pid for _, pid in sorted((line[1], line[0]) for line in newest())]


def lose(job, before, ranks, signum=signal.SIGKILL, launch=1):
    """They are lost; the others are the next world, in their order."""
    for rank in ranks:
        os.kill(before[rank], signum)
    left = [pid for rank, pid in enumerate(before) if rank not in ranks]
    after = world_of(job, len(left), launch)
    claim(after == left, f"{left} were left, and the world is {after}")
    return after


def test():
    need_solver()
    with Job(["--mpi=ulfm", "--min", "2", "--max", str(RANKS)],
             [IN_PLACE, UNTIL_FINISH[1], "--sets"], env=MPI_ENV) as job:
        world = world_of(job, RANKS)
        world = lose(job, world, [1])
        world = lose(job, world, [0], signal.SIGSTOP)
        world = lose(job, world, [1])
        at = job.step()
        os.kill(world[0], signal.SIGKILL)
        again = world_of(job, RANKS, launch=2)
        claim(not set(world) & set(again), "a new launch has new processes")
        lose(job, again, [0, 3], launch=2)
        job.finish()
        text = job.text()
        job.check(is_mpi=True)
        claim(text.count("goes on in place") >= 4, "four worlds in place")
        claim("steps lost: 0" in text, "a committed step was lost")
        claim("exit code 0" in text and job.step() > at, text)


main(test)
