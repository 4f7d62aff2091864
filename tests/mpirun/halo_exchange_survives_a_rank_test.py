"""examples/04_halo.c under `regroup run --mpi`: a rank is killed in a commit, the
next launch goes on from the newest commit of all local buffers, and prints what the
program without Regroup does.

Covers: state/local.c state_resume.c 04_halo.c"""

import os
import re
import subprocess

from house import BUILD, Job, claim, main
from mpijob import MPI_ENV, launches, need_solver

HALO = os.path.join(BUILD, "bin", "halo-openmpi")
STEPS = "4000"
KILL = {"REGROUP_FAILPOINT": "commit.copy:rank2:gen1:step4:kill"}


def results(text):
    return set(re.findall(r"^((?:step|sum) [0-9].*)$", text, re.M))


def test():
    need_solver()
    bare = subprocess.run(
        ["mpirun.openmpi", "--oversubscribe", "-n", "2",
         HALO.replace("halo-", "halo-mpi-"), STEPS], check=True, text=True,
        capture_output=True, env=dict(os.environ, **MPI_ENV)).stdout
    with Job(["--mpi", "-n", "4"], [HALO, STEPS],
             env={**MPI_ENV, **KILL}) as job:
        job.finish()
        claim([one[3] for one in launches(job)] ==
              ["the beginning", "step 3 (0 rolled back)"], job.text())
        got = results(job.text())
        claim(got and got <= results(bare) and
              any(line.startswith("sum") for line in got),
              f"{sorted(got - results(bare))} is not what MPI alone says")


main(test)
