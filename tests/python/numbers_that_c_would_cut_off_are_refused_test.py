"""Integers that the C side has no room for are refused, where ctypes would
silently truncate them and use another rank or colour, and so are names with
a NUL; numpy's integers, lists for shapes and times that never end are taken.

Covers: _numbers.py"""
import zlib

import pyjob


def refused(call, *arguments, **named):
    import regroup
    try:
        call(*arguments, **named)
    except regroup.Invalid as error:
        assert "; give " in error.sentence, error
        return
    raise AssertionError(f"{arguments} {named} was taken")


def check_ranks(ctx):
    import numpy
    world, ones, large = ctx.world, numpy.ones(1), 2**32
    refused(ctx.set, [large])
    refused(world.broadcast, ones, root=large)
    refused(world.reduce, ones, root=-large)
    refused(world.translate, [large], world)
    refused(ctx.split, zlib.crc32(b"host-2"))  # above 2^31: no colour at all
    refused(ctx.split, -2)
    refused(ctx.split, 0, large)
    refused(ctx.set_by, lambda: large)
    refused(ctx.set_by, lambda: -2)
    whole = ctx.set(numpy.arange(ctx.size))
    assert (whole.reduce(ones, root=numpy.int64(0)) == ctx.size).all()
    assert ctx.split(numpy.int64(3), numpy.int32(-1)).rank == 0
    assert whole.translate(numpy.arange(ctx.size), world) == [0]


def check_memory(ctx):
    import numpy
    import regroup
    refused(ctx.alloc, -1, "f4")
    refused(ctx.alloc, 2**62, "f8")  # 2^65 bytes, which are 0 in 64 bits
    refused(ctx.alloc, (2**40, 2**40), "u1")
    assert ctx.alloc([numpy.int64(2), 3], "f4").shape == (2, 3)
    state, large = ctx.state(), 2**32
    refused(state.add, "x", numpy.ones(9), kind=regroup.SHARDED,
            replicas=large)
    refused(state.add, "x", numpy.ones(9), kind=regroup.SHARDED, align=-8)
    for count, batch, seed in ((2**64 + 9, 3, 0), (9, -3, 0), (9, 3, -1)):
        refused(regroup.Sampler, count, batch, seed=seed)
    sampler = regroup.Sampler(numpy.int64(9), 3, in_order=True)
    for epoch, step, rank, size in ((2**64, 0, 0, 1), (0, -1, 0, 1),
                                    (0, 0, large, 1), (0, 0, 0, large + 1)):
        refused(sampler.take, epoch, step, rank, size)
    assert sampler.take(0, numpy.int64(1), 0, 1) == [3, 4, 5]


def check_names(ctx):
    import numpy
    refused(ctx.set, [0], name="a\0b")
    refused(ctx.set_by, lambda: 0, name="a\0b")
    refused(ctx.split, 0, name="\0")
    state = ctx.state()
    refused(state.add, "a\0b", numpy.ones(1))
    refused(state.slice, "a\0b")
    for call in state.load, state.save:
        refused(call, "/tmp\0/elsewhere")


def check_times(ctx):
    import numpy
    ones = numpy.ones(1)
    for deadline in 0, -1, float("nan"):
        refused(ctx.world.allreduce, ones, deadline=deadline)
    for long in 3e6, float("inf"):
        ctx.world.allreduce(ones, deadline=long)
        ctx.world.start_allreduce(ones).wait(long)


def work():
    import regroup
    with regroup.init() as ctx:
        check_ranks(ctx)
        check_memory(ctx)
        check_names(ctx)
        check_times(ctx)


pyjob.main(work, sizes=(1,))
