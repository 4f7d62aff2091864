"""A program of mpi4py under `regroup run --mpi`: Regroup's world is MPI's, a
killed rank is a new launch, and resume finds the commit of the one before. What
redistribute raises is raised by resume, also NotFound, which is no beginning.

Covers: _state.py"""
import os

import pyjob
from house import SOURCE, UNTIL_FINISH, Job, claim, main
from mpijob import MPI_ENV, kill_a_rank, launches

SOLVER = os.path.join(SOURCE, "tests/mpirun/solver.py")


def start(*words):
    python = pyjob.python_with("numpy", "mpi4py.MPI")
    return Job(["--mpi", "-n", "2", "--max-restarts", "1"],
               [python, SOLVER, UNTIL_FINISH[1], *words],
               env=pyjob.environment(**MPI_ENV))


def a_killed_rank_is_a_new_launch():
    with start() as job:
        kill_a_rank(job)


def exception_in_one_rank_keeps_none_waiting():
    with start("raise", "9") as job:
        claim(job.process.wait(60) == 1, job.text())
        text = job.text()
        claim("RuntimeError: a bug" in text, "the exception is not shown")
        claim("used up its --max-restarts at step 8" in text, text)
        claim([one[3] for one in launches(job)] ==
              ["the beginning", "step 8 (0 rolled back)"],
              f"another launch was expected: {launches(job)}")


def uneven_steps_are_named():
    with start("uneven") as job:
        job.process.wait(60)
        claim("rank 1 has come to rg_finalize at step 4, rank 0 commits step 5"
              in job.text(), "the library does not name the mistake")


def what_redistribute_raises_is_no_beginning():
    with start("others") as job:
        claim(job.process.wait(60) == 1, job.text())
        claim("NotFound: part" in job.text() and
              "is with its own rank" in job.text(), job.text())
        claim(job.text().count("begins at") == 2, job.text())


def test():
    a_killed_rank_is_a_new_launch()
    exception_in_one_rank_keeps_none_waiting()
    uneven_steps_are_named()
    what_redistribute_raises_is_no_beginning()


main(test)
