"""Programs in Fortran are elastic as those in C are: under `regroup run --mpi`
a killed rank is a new launch that resumes from the commit, parts of its ranks
included, and fn of rg_run, or the body of a loop of rg_next, goes on with the
memory of the last commit; another number of ranks shares parts out again. A call
without ierr ends its program with the sentence of the error and code 1.

Covers: regroup.F90 elements.inc regroup_mpi.f90"""

import os
import re
import subprocess
import sys
import tempfile

from house import BUILD, SOURCE, UNTIL_FINISH, Job, claim, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpirun"))
sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run  # noqa: E402
from mpijob import MPI_ENV, kill_a_rank  # noqa: E402

SOLVER = os.path.join(BUILD, "tests", "fortran_solver-openmpi")
PARTS = os.path.join(BUILD, "tests", "fortran_parts-openmpi")
TRAIN = os.path.join(BUILD, "tests", "fortran_train-openmpi")


def a_killed_rank_is_a_new_launch():
    with Job(["--mpi", "-n", "2"], [SOLVER, UNTIL_FINISH[1]],
             env=MPI_ENV) as job:
        kill_a_rank(job)


def a_function_goes_on_after_a_loss(*how):
    with Job(["-n", "2"], [TRAIN, UNTIL_FINISH[1], *how]) as job:
        job.wait_step(5)
        at = job.step()
        job.kill(rank=1)
        job.wait_world(2, above=1)
        job.finish()
        job.check()
        ends = re.findall(r"step (\d+) total ([\d.]+)", job.text())
        claim(len(ends) == 2 and ends[0] == ends[1], f"they end with {ends}")
        step, total = int(ends[0][0]), float(ends[0][1])
        claim(step > at and total == step * (step + 1) / 2,
              f"the total of {step} steps is {total}")


def parts_are_shared_out_again():
    with tempfile.TemporaryDirectory(prefix="rg-") as folder:
        for np, step in (3, 0), (2, 1):
            code, out, err = run.run("openmpi", np, [PARTS],
                                     REGROUP_CHECKPOINT_DIR=folder)
            claim(code == 0 and f"resumed at {step}" in out,
                  f"{np} ranks: {code}\n{out}{err}")


def an_unchecked_error_ends_the_program():
    got = subprocess.run([TRAIN], capture_output=True, text=True,
                         timeout=60, check=False)
    claim(got.returncode == 1, f"code {got.returncode}: {got.stderr}")
    claim(got.stderr.startswith("regroup: ") and "99" in got.stderr,
          f"it says {got.stderr}")


def test():
    a_killed_rank_is_a_new_launch()
    a_function_goes_on_after_a_loss()
    a_function_goes_on_after_a_loss("next")
    parts_are_shared_out_again()
    an_unchecked_error_ends_the_program()


main(test)
