"""A request that is dropped goes on with its buffers; memory of alloc is there
as long as an array shows it, also after finalize; a registered array is held
by its state.

Covers: _buffers.py _wait.py"""
import gc
import weakref

import pyjob


def check_dropped(ctx):
    import numpy
    beside = ctx.set(range(ctx.size), name="beside")
    sent, out = numpy.ones(1 << 16, "i4"), numpy.zeros(1 << 16, "i4")
    is_there = weakref.ref(sent)
    if ctx.rank != 0:
        beside.barrier()
    ctx.world.start_allreduce(sent, out=out)  # dropped at once
    del sent
    gc.collect()
    if ctx.rank == 0:
        assert ctx.size == 1 or is_there() is not None, \
            "a buffer in flight is gone"
        beside.barrier()
    for _ in range(1000):
        ctx.world.barrier()
    assert (out == ctx.size).all()
    assert is_there() is None, "a buffer is held forever"


def work():
    import numpy
    import regroup
    with regroup.init() as ctx:
        check_dropped(ctx)
        block = ctx.alloc((3, 5), "f8")
        assert block.shape == (3, 5) and not block.any()
        assert (ctx.world.allreduce(block + 1, out=block) == ctx.size).all()
        row = block[1]
        del block
        gc.collect()
        row += 1
        ctx.alloc(1000, numpy.int8)  # gone at once
        held = ctx.state().add("held", numpy.zeros(4))
        is_there = weakref.ref(held)
        del held
        gc.collect()
        assert is_there() is not None, "a registered array is gone"
    assert (row == row[0]).all() and row[0] > 1
    gc.collect()
    assert is_there() is None, "finalize does not give arrays back"


pyjob.main(work)
