"""Interposed collectives give an unchanged program the bytes that MPI gives it:
each type, op and size, in place and not, elements with gaps, on the world and
on communicators split from it; and native really carried them.

Usage: ... FLAVOUR NP...

Covers: begin.c carry.c choice.c mpi_calls.c mpi_types.c native_set.c packed.c
"""

import sys

from house import claim, main
from preloaded import counted, need_success, preload

KINDS = ("allreduce", "reduce", "reduce_scatter", "broadcast", "allgather",
         "gather", "scatter", "alltoall", "barrier")


def check(flavour, np):
    what = f"{np} ranks of {flavour}"
    _, err = need_success(what, preload(flavour, np, "collectives"))
    calls = counted(err)
    for kind in KINDS:
        native, every = calls.get(kind, (0, 0))
        claim(native * 4 > every,
              f"{what}: {native} of {every} calls of {kind} were native\n{err}")
    if flavour == "openmpi" and np == 2:
        need_success(what + ", at the sizes that pay",
                     preload(flavour, np, "collectives", wanted="all"))
        _, err = need_success(what + ", without the variable",
                              preload(flavour, np, "collectives", wanted=None))
        claim(not counted(err), f"calls were interposed unasked\n{err}")


def test():
    for np in sys.argv[2:]:
        check(sys.argv[1], int(np))


main(test)
