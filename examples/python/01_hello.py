"""Every worker says who it is, and all of them add their ranks.

    regroup run -n 4 python3 examples/python/01_hello.py

prints one line per worker, in any order, each with its worker's name in
front:

    h1.0 r0 | rank 0 of 4 on host h1, slot 0: the ranks add up to 6

Without `regroup run` it is a world of one, and the sum is 0.
"""

import numpy
import regroup

with regroup.init() as ctx:
    total = ctx.world.allreduce(numpy.array([ctx.rank]))
    print(f"rank {ctx.rank} of {ctx.size} on host {ctx.host}, slot "
          f"{ctx.slot}: the ranks add up to {total[0]}")
