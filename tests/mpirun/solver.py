"""solver.c in Python, with mpi4py: solver.py UNTIL-FILE [raise STEP | uneven].
Rank 1 raises an exception at that step, or ends one step less."""
import os
import sys
import time

import numpy
from mpi4py import MPI

import regroup

world = MPI.COMM_WORLD
with regroup.init(world) as ctx:
    assert (ctx.rank, ctx.size) == (world.rank, world.size)
    value = numpy.zeros(1, dtype=numpy.uint64)
    state = ctx.state()
    state.add("value", value)
    at = state.resume() or 0
    if sys.argv[2:] == ["uneven"]:
        for _ in range(at, 5 - world.rank):
            state.commit()
        sys.exit(0)
    while not world.bcast(os.path.exists(sys.argv[1])):
        total = world.allreduce((world.rank + 1) * (at + 1))
        value[0] = (int(value[0]) * 31 + total) % 2**64
        time.sleep(0.002)
        at += 1
        if sys.argv[2:] == ["raise", str(at)] and world.rank == 1:
            raise RuntimeError("a bug")
        try:
            state.commit()
        except regroup.HostsChanged:
            break
    if world.rank == 0:
        print(f"final step {at} value {int(value[0]):016x} of "
              f"{world.size}", flush=True)
