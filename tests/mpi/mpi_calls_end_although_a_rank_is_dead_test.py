"""Rank 1 is killed at each call of MPI that may wait for it, under a launcher
that lets rank 0 live: rank 0 ends, by a status or by the watch, and says why.
The processes of a world that has not met are not known yet: there the deadline
of operations ends the wait, and a stall names it.

Covers: peer_watch.c world.c"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import run

PROGRAM = (os.environ["REGROUP_BUILD"]
           + "/tests/mpi_calls_end_although_a_rank_is_dead-openmpi")
BEGINNING = "MPI_Init_thread"  # no rank has a number yet
MEETING = (BEGINNING, "MPI_Comm_create", "MPI_Comm_split_type", "MPI_Bcast",
           "MPI_Allgather")
WAITING = ("MPI_Comm_dup", "MPI_Comm_create_group", "MPI_Comm_free",
           "MPI_Finalize")


def fault(call):
    extra = ({"REGROUP_OP_TIMEOUT": "3s", "REGROUP_STALL": "1s"}
             if call in MEETING else {})
    if call == BEGINNING:
        np, words = 1, [PROGRAM, ":", "-n", "1", "env",
                        f"REGROUP_FAILPOINT={call}:kill", PROGRAM]
    else:
        np, words = 2, [PROGRAM]
        extra["REGROUP_FAILPOINT"] = f"{call}:rank1:kill"
    code, out, err = run.run("openmpi", np, words, "--enable-recovery",
                             limit_s=40, REGROUP_TRANSPORTS="mpi", **extra)
    is_named = " has not returned for " in err or "RG_ERR_" in out
    is_done = "rg_finalize: RG_OK" in out
    if call in MEETING:
        is_named &= "REGROUP_OP_TIMEOUT ends this process" in err
    if "had not ended" in err or not (is_named or is_done):
        return f"{call}: mpirun ended with {code}\n{out}{err}"
    return None


with ThreadPoolExecutor(4) as pool:
    failed = [why for why in pool.map(fault, MEETING + WAITING) if why]
print("\n".join(failed))
sys.exit(1 if failed else 0)
