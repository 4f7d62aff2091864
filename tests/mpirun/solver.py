"""solver.c in Python, with mpi4py: solver.py UNTIL-FILE [raise STEP | uneven |
others]. Rank 1 raises an exception at that step, or ends one step less. others:
it ends at step 3, and a local array of another size in the next launch is
redistributed out of parts that are not this rank's."""
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
    if sys.argv[2:] == ["others"]:
        state.add("own", numpy.zeros(4 + int(os.environ["REGROUP_RESTART"])),
                  local=True, redistribute=lambda parts: numpy.frombuffer(
                      b"".join(parts)).copy())
    at = state.resume() or 0
    if sys.argv[2:] == ["others"]:
        print("begins at", at, flush=True)
        while at < 9:
            state.commit()
            at += 1
            if world.rank == 1 and at == 3:
                os._exit(3)
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
