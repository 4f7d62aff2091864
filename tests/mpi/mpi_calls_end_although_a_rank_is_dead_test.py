"""Rank 1 is killed at each call of MPI that may wait for it, under a launcher
that lets rank 0 live: rank 0 ends, by a status or by the watch, and says why.
The processes of a world that has not met are not known yet: there the deadline
of operations ends the wait.

Covers: peer_watch.c world.c"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import run

PROGRAM = (os.environ["REGROUP_BUILD"]
           + "/tests/mpi_calls_end_although_a_rank_is_dead-openmpi")
MEETING = ("MPI_Comm_create", "MPI_Comm_split_type", "MPI_Bcast",
           "MPI_Allgather")
WAITING = ("MPI_Comm_dup", "MPI_Comm_create_group", "MPI_Comm_free",
           "MPI_Finalize")


def fault(call):
    extra = {"REGROUP_OP_TIMEOUT": "3s"} if call in MEETING else {}
    code, out, err = run.run(
        "openmpi", 2, [PROGRAM], "--enable-recovery", limit_s=40,
        REGROUP_TRANSPORTS="mpi", REGROUP_FAILPOINT=f"{call}:rank1:kill",
        **extra)
    is_named = " has not returned for " in err or "RG_ERR_" in out
    is_done = "rg_finalize: RG_OK" in out
    if "had not ended" in err or not (is_named or is_done):
        return f"{call}: mpirun ended with {code}\n{out}{err}"
    return None


with ThreadPoolExecutor(4) as pool:
    failed = [why for why in pool.map(fault, MEETING + WAITING) if why]
print("\n".join(failed))
sys.exit(1 if failed else 0)
