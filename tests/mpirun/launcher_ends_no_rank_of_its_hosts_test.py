"""`regroup run --mpi -H`: the agent of rank 0's host runs mpirun. Where the
launcher has started that agent on its own machine, it ends before it, and ends
none of its processes: their code is the job's.

Covers: mpirun/sweep.c mpirun/mpirun.c plan.c
"""

from house import UNTIL_FINISH, Job, claim, main
from mpijob import (FINAL, MPI_ENV, SOLVER, launches, need_solver,
                    value_after)


def test():
    need_solver()
    with Job(["--mpi", "-n", "2", "-H", "localhost:2"],
             [SOLVER, UNTIL_FINISH[1]], env=MPI_ENV) as job:
        job.wait_step(20)
        job.finish()
        claim([one[2] for one in launches(job)] == ["localhost:2"],
              f"{launches(job)}")
        claim("after the job was done" not in job.text(), "a rank was killed")
        step, value, _ = FINAL.search(job.text()).groups()
        claim(int(value, 16) == value_after(int(step), 2), "another value")


main(test)
