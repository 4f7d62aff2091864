"""A Fortran program has from `use regroup` what MPI gives it: each operation of
the module, on the world and on the set of a communicator, over each transport,
beside Open MPI and MPICH.

Covers: regroup.F90 elements.inc operation.inc operations.inc regroup_mpi.f90 mpi/fortran.c"""

import os
import sys

from house import BUILD, SOURCE, claim, main

sys.path.insert(0, os.path.join(SOURCE, "tests", "mpi"))
import run  # pylint: disable=wrong-import-position

PROGRAM = os.path.join(BUILD, "tests", "fortran_operations-")


def test():
    for flavour in "openmpi", "mpich":
        if not os.path.exists(PROGRAM + flavour):
            print(f"no {flavour} for Fortran here")
            continue
        for np, transport in (3, "mpi"), (2, "native"):
            code, out, err = run.run(flavour, np, [PROGRAM + flavour],
                                     REGROUP_TRANSPORTS=transport)
            claim(code == 0, f"{flavour}, {np} ranks over {transport}: "
                             f"{code}\n{out}{err}")


main(test)
