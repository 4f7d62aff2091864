"""An operation that passed its deadline keeps its arrays until finalize, and
beside MPI, which can't take it back, until the process ends: a late member's
data and MPI_Finalize find them there.

Covers: _wait.py _buffers.py reductions.c"""
import gc
import weakref

import pyjob


def pass_deadline(ctx, beside, array):
    """On rank 0; the others start theirs behind that."""
    import regroup
    if ctx.rank != 0:
        beside.barrier()
    try:
        ctx.world.allreduce(array, deadline=0.2)
        assert ctx.rank != 0, "no Timeout"
    except regroup.Timeout:
        pass
    if ctx.rank == 0:
        beside.barrier()


def work():
    import numpy
    import regroup
    with regroup.init() as ctx:
        rank, beside = ctx.rank, ctx.set(range(ctx.size), name="beside")
        sent = numpy.ones(1 << 18, "i4")
        is_there = weakref.ref(sent)
        pass_deadline(ctx, beside, sent)
        del sent
        gc.collect()
        if rank == 0:
            assert is_there() is not None, "a buffer of Regroup's is gone"
        beside.barrier()
    gc.collect()
    if rank == 0:
        assert is_there() is not None, "a buffer of MPI's is gone"


def test():
    for flavour, fast in ("openmpi", "on"), ("mpich", "off"):
        pyjob.mpirun(flavour, 2, pyjob.command(), REGROUP_TRANSPORTS="mpi",
                     REGROUP_PYTHON_FAST=fast)


pyjob.main(work, test=test)
