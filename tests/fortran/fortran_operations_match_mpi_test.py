"""A Fortran program has from `use regroup` what MPI gives it: each operation of
the module, on the world and on the set of a communicator, over each transport.

Covers: regroup.F90 elements.inc regroup_mpi.f90 mpi/fortran.c"""

import os
import sys

from house import BUILD, SOURCE, claim, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run  # pylint: disable=wrong-import-position

PROGRAM = os.path.join(BUILD, "tests", "fortran_operations")


def test():
    for np, transport in (3, "mpi"), (2, "native"):
        code, out, err = run.run("openmpi", np, [PROGRAM],
                                 REGROUP_TRANSPORTS=transport)
        claim(code == 0, f"{np} ranks over {transport}: {code}\n{out}{err}")


main(test)
