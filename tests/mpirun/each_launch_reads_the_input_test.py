"""A file that is the standard input of `regroup run --mpi` comes to rank 0 in
each launch, from where it stood when the job began; a pipe in the first one
only, and one sentence says so then, as it does where rank 0 is on another host.
Of the launcher's variables ranks there have, with --export-all no, those that
-x names, and no others.

Covers: mpirun/mpirun.c remotes.c
"""

import os
import signal
import tempfile

from house import UNTIL_FINISH, Job, claim, main
from launching import LaunchedJob
from mpijob import MPI_ENV, SOLVER, need_solver, variables_of, wait_launch

SENTENCE = "has no standard input"


def reads(job):
    return [line for line in job.text().splitlines() if " reads " in line]


def pipe_is_read_once():
    ours, theirs = os.pipe()
    os.write(theirs, b"one\n")
    os.close(theirs)
    job = Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1], "--read"],
              env=MPI_ENV)
    job.stdin = ours
    with job:
        os.close(ours)
        wait_launch(job, 1)
        claim(SENTENCE not in job.text(), "launch 1 has an input")
        for number in 1, 2:
            os.kill(job.pid(1), signal.SIGKILL)
            wait_launch(job, number + 1)
        job.finish()
        claim(reads(job) == ["rank 0 reads one"], f"{reads(job)}")
        claim(job.text().count(f"launch 2 {SENTENCE}: an earlier launch") == 1
              and job.text().count(SENTENCE) == 1, "it is said once")


def check_variables(job):
    for rank in 0, 1:
        found = variables_of(job.pid(rank))
        claim({**MPI_ENV, "SET": "a b"}.items() <= found.items() and
              "UNNAMED" not in found, f"rank {rank} has {found}")


def rank_elsewhere_reads_nothing():
    with tempfile.TemporaryFile("w+") as file:
        file.write("one\n")
        file.seek(0)
        passed = [word for name in MPI_ENV for word in ("-x", name)]
        job = LaunchedJob(["--mpi", "-n", "2", "-H", "h1:2", "--export-all",
                           "no", *passed, "-x", "SET=a b"],
                          [SOLVER, UNTIL_FINISH[1], "--read"],
                          env=dict(MPI_ENV, SET="here", UNNAMED="here"))
        job.stdin = file
        with job:
            wait_launch(job, 1)
            check_variables(job)
            os.kill(job.pid(1), signal.SIGKILL)
            wait_launch(job, 2)
            check_variables(job)
            job.finish()
            claim(not reads(job), f"{reads(job)}")
            claim(f"{SENTENCE}: it runs on another host" in job.text(), "why")


def file_is_read_by_each_launch():
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
            claim(reads(job) == ["rank 0 reads one", "rank 0 reads two"] * 2,
                  f"what ranks have read: {reads(job)}")
            claim(SENTENCE not in job.text(), "a file is read by each launch")


def test():
    need_solver()
    file_is_read_by_each_launch()
    pipe_is_read_once()
    rank_elsewhere_reads_nothing()


main(test)
