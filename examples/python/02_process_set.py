"""The same ranks in two sets at once: the world, and "even" or "odd". An
operation on each is in flight at the same time; neither waits for the other.

    regroup run -n 4 python3 examples/python/02_process_set.py

prints, in any order and after each worker's name:

    rank 0 is 0 of 2 in even: the set's ranks add up to 2, the world's to 6
    rank 1 is 0 of 2 in odd: the set's ranks add up to 4, the world's to 6
    rank 2 is 1 of 2 in even: the set's ranks add up to 2, the world's to 6
    rank 3 is 1 of 2 in odd: the set's ranks add up to 4, the world's to 6
"""

import sys

import numpy
import regroup

with regroup.init() as ctx:
    if ctx.size < 2:
        sys.exit("a world of one has no odd rank; run it with -n 4")
    even = ctx.set(range(0, ctx.size, 2), name="even")
    odd = ctx.set(range(1, ctx.size, 2), name="odd")
    mine = even if even.rank >= 0 else odd
    rank = numpy.array([ctx.rank])
    in_set, in_world = regroup.wait_all([mine.start_allreduce(rank),
                                         ctx.world.start_allreduce(rank)])
    print(f"rank {ctx.rank} is {mine.rank} of {mine.size} in {mine.name}: the "
          f"set's ranks add up to {in_set[0]}, the world's to {in_world[0]}")
