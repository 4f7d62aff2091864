"""A file that is the standard input of `regroup run --mpi` comes to rank 0 in
each launch, from where it stood when the job began.

Covers: mpirun/mpirun.c
"""

import os
import signal
import tempfile

from house import UNTIL_FINISH, Job, claim, main
from mpijob import MPI_ENV, SOLVER, need_solver, wait_launch


def test():
    need_solver()
    with tempfile.TemporaryFile("w+") as file:
        file.write("read before\none\ntwo\n")
        file.flush()
        file.seek(len("read before\n"))
        job = Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1], "--read"],
                  env=MPI_ENV)
        job.stdin = file
        with job:
            wait_launch(job, 1)
            os.kill(job.pid(1), signal.SIGKILL)
            wait_launch(job, 2)
            job.finish()
            read = [line for line in job.text().splitlines() if " reads " in line]
            claim(read == ["rank 0 reads one", "rank 0 reads two"] * 2,
                  f"what ranks have read: {read}")


main(test)
