"""The halo exchange of 04_halo.c in mpi4py, and elastic: each rank's piece of
the rod is a local array that follows its rank. Under `regroup run --mpi` it
prints the same as under mpirun, also when ranks or hosts are lost.

    mpirun -n 4 python3 examples/python/06_halo.py

    step 500: residual 4.8396e-02
    step 3000: residual 8.0655e-03
    sum 3040.579871041
"""
import sys

import numpy
from mpi4py import MPI

import regroup

CELLS, EVERY = 240, 500
STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
world = MPI.COMM_WORLD
ends = numpy.linspace(0, CELLS, world.size + 1).astype(int)
begin, end = ends[world.rank], ends[world.rank + 1]


def cut_again(parts):
    """The number of ranks has changed: the old parts are the whole rod."""
    return numpy.frombuffer(b"".join(parts))[begin:end].copy()


def exchange(cells):
    """The cells, with the neighbours' cells at both ends."""
    left = world.rank - 1 if world.rank > 0 else MPI.PROC_NULL
    right = world.rank + 1 if world.rank < world.size - 1 else MPI.PROC_NULL
    rod = numpy.zeros(len(cells) + 2)
    rod[1:-1] = cells
    if world.rank == 0:
        rod[0] = 100  # the hot end
    world.Sendrecv(rod[1:2], left, recvbuf=rod[-1:], source=right)
    world.Sendrecv(rod[-2:-1], right, recvbuf=rod[:1], source=left)
    return rod


with regroup.init(world) as ctx:
    state = ctx.state()
    at = state.add("at", numpy.zeros(1, dtype=int))
    state.add("cells", numpy.zeros(end - begin), local=True, replicas=1,
              redistribute=cut_again)
    state.resume()  # at stays 0 if nothing was committed
    cells = state.array("cells")
    while at[0] < STEPS:
        rod = exchange(cells)
        change = 0.25 * (rod[:-2] - 2 * rod[1:-1] + rod[2:])
        cells += change
        at[0] += 1
        if at[0] % EVERY == 0:
            residual = world.allreduce(abs(change).max(), MPI.MAX)
            if world.rank == 0:
                print(f"step {at[0]}: residual {residual:.4e}", flush=True)
            try:
                state.commit()
            except regroup.HostsChanged:
                sys.exit()  # the step is saved, and this launch ends
    total = world.allreduce(cells.sum())
    if world.rank == 0:
        print(f"sum {total:.9f}", flush=True)
