"""Under Open MPI 5 with ULFM, whose calls are looked up: the program was built
for Open MPI 4.1, which has none.

Covers: lost.c"""

import os
import sys

import run

PROGRAM = os.environ["REGROUP_BUILD"] + "/tests/a_lost_peer_is_named-openmpi"

code, out, err = run.run("openmpi5", 4, [PROGRAM], "--with-ft", "ulfm",
                         REGROUP_TRANSPORTS="mpi",
                         REGROUP_CHECK=sys.argv[1])
missing = [r for r in (0, 2, 3) if f"rank {r} goes on" not in out]
if missing:
    print(f"ranks {missing} did not go on; mpirun ended with {code}\n"
          + out + err)
sys.exit(1 if missing else 0)
