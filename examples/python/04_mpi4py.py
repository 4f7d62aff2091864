"""An ordinary mpi4py program, a ring of cells that exchange their edges, whose
reductions run on Regroup's sets. Its own MPI calls work as before.

    mpirun -n 4 python3 examples/python/04_mpi4py.py

prints

    after 30 steps on 4 ranks: left half 8.8, right half 7.2, all 16.0

The lines that are Regroup's are marked.
"""

import numpy
import regroup  # Regroup
from mpi4py import MPI

CELLS, STEPS = 64, 30

comm = MPI.COMM_WORLD
left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
cells = numpy.zeros(CELLS // comm.size + 2)  # with the neighbours' edges
if comm.rank == 0:
    cells[1] = 16

with regroup.init(comm) as ctx:  # Regroup
    side = comm.Split(comm.rank < comm.size / 2)
    half = ctx.set_of(side)  # Regroup
    for step in range(STEPS):
        comm.Sendrecv(cells[1:2], left, recvbuf=cells[-1:], source=right)
        comm.Sendrecv(cells[-2:-1], right, recvbuf=cells[:1], source=left)
        cells[1:-1] += (cells[:-2] - 2 * cells[1:-1] + cells[2:]) / 4
        heat = cells[1:-1].sum(keepdims=True)
        in_half, in_all = regroup.wait_all([  # Regroup
            half.start_allreduce(heat), ctx.world.start_allreduce(heat)])
    others = float(in_all[0] - in_half[0])
if comm.rank == 0:
    print(f"after {STEPS} steps on {comm.size} ranks: left half "
          f"{in_half[0]:.1f}, right half {others:.1f}, all {in_all[0]:.1f}")
