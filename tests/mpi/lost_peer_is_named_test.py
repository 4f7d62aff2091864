"""Under launchers that let the others live: Open MPI 5 with ULFM, whose calls
are looked up (the program was built for Open MPI 4.1, which has none), Open MPI
4.1 with recovery, and MPICH, whose mpirun sees a wrapper that lives on. Neither
of these two says that a rank is dead.

Covers: lost.c peer_watch.c"""

import os
import sys

import run

FLAGS = {"openmpi5": ("--with-ft", "ulfm"),
         "openmpi": ("--enable-recovery",),
         "mpich": ()}
WRAPPER = ["sh", "-c", '"$0"; [ $? != 137 ] || sleep 4; exit 0']
flavour, transport, check = sys.argv[1:]
program = (os.environ["REGROUP_BUILD"] + "/tests/lost_peer_is_named-"
           + flavour.rstrip("5"))
words = WRAPPER * (flavour == "mpich") + [program]
code, out, err = run.run(flavour, 4, words, *FLAGS[flavour], limit_s=30,
                         REGROUP_TRANSPORTS=transport, REGROUP_CHECK=check)
missing = [r for r in (0, 2, 3) if f"rank {r} goes on" not in out]
if missing:
    print(f"ranks {missing} did not go on; mpirun ended with {code}\n"
          + out + err)
sys.exit(1 if missing else 0)
