"""`mpirun -n 2 regroup mpirun-preload PROGRAM` runs an MPI program, or a script
that starts one, with its collectives interposed; ranks that it spawns, which
have no library, are left to MPI; what is no MPI program is refused with one
sentence.

Usage: ... FLAVOUR

Covers: preload_cmd.c which_mpi.c flavour.c native_set.c"""

import os
import subprocess
import sys

from house import BUILD, claim, main
from preloaded import built, counted, library, mpirun, need_success

REGROUP = BUILD + "/bin/regroup"


def run(flavour, *words):
    return mpirun.run(flavour, 2, [REGROUP, "mpirun-preload", *words],
                      limit_s=60, REGROUP_LOG="warn,interpose=debug")


def test():
    flavour = sys.argv[1]
    library(flavour)
    program = f"{BUILD}/tests/habits-{built(flavour)}"
    _, err = need_success("all", run(flavour, program))
    claim(counted(err)["allreduce"][0] > 0, err)
    _, err = need_success("one name", run(flavour, "--interpose", "barrier",
                                          program))
    claim("allreduce" not in counted(err), err)
    _, err = need_success("a script", run(flavour, "sh", "-c", program))
    claim(counted(err)["allreduce"][0] > 0, err)
    if flavour == "openmpi":  # MPICH of Debian can't spawn
        _, err = need_success("spawned", run(flavour, program, "spawned"))
        native, every = counted(err)["allreduce"]
        claim(0 < native <= every // 2, f"spawned: {native} of {every}\n{err}")

    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("OMPI_", "PMI"))}
    for words, said in (["true"], "true is linked with no MPI"), (
            [], "there is no program to run"):
        got = subprocess.run([REGROUP, "mpirun-preload", *words], env=env,
                             capture_output=True, text=True, check=False)
        claim(got.returncode == 64 and said in got.stderr,
              f"{words}: {got.returncode} {got.stderr}")


main(test)
