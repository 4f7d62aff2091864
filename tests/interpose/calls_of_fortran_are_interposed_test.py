"""A Fortran program is interposed, however it names MPI (mpif.h, use mpi, use
mpi_f08), also in place.

Usage: ... FLAVOUR

Covers: fortran_calls.c"""

import os
import shutil
import subprocess
import sys
import tempfile

from house import SOURCE, claim, main, skip
from preloaded import counted, need_success, run_preloaded

PROGRAM = os.path.join(SOURCE, "tests", "interpose", "fortran_names.f90")


def test():
    flavour = sys.argv[1]
    compiler = shutil.which("mpifort." + flavour)
    if compiler is None:
        skip(f"there is no mpifort.{flavour}; ci/install mpi")
    with tempfile.TemporaryDirectory() as top:
        built = subprocess.run(
            [compiler, "-w", "-fallow-argument-mismatch", PROGRAM, "-o",
             top + "/program"], cwd=top, capture_output=True, text=True,
            check=False)
        claim(built.returncode == 0, built.stderr)
        _, err = need_success(flavour, run_preloaded(flavour, 2,
                                                     [top + "/program"]))
    for name in "allreduce", "broadcast", "allgather", "reduce", "barrier":
        native, every = counted(err).get(name, (0, 0))
        claim(2 * native > every, f"{name}: {native} of {every} were native")


main(test)
