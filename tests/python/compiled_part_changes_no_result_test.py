"""Allreduces through the compiled part of the package and without it give
equal results and equal errors, for each kind of array and each mistake; ranks
that use one and the other work together. What is plain does go through it, and
waits in it let other threads run.

Covers: fast/arrays.c fast/reductions.c _fast.py"""
import array
import os
import sys

import pyjob

TYPES = ("u1", "i4", "i8", "f4", "f8", "i1", "u4", "u8", "f2", "?")


def outcome(call):
    try:
        found = call()
    except Exception as error:  # also those of ctypes
        return f"{type(error).__name__}: {error}"
    if isinstance(found, list):
        return " ".join(show(one) for one in found)
    return show(found)


def show(found):
    kind = type(found).__name__
    if hasattr(found, "dtype"):
        return f"{kind} {found.dtype} {tuple(found.shape)} {found.tolist()}"
    return f"{kind} {list(found)}"


def numpy_calls(world, ctx):
    import numpy
    import regroup
    for dtype in TYPES:
        for op in regroup.Op:
            mine = numpy.array([ctx.rank, 3, 0], dtype)
            yield f"{dtype} {op.name}", lambda: world.allreduce(mine, op=op)
    ones = numpy.ones((2, 3))
    strided = numpy.ones((4, 4))[:, ::2]
    fixed = numpy.ones(3)
    fixed.flags.writeable = False
    yield "rows", lambda: world.allreduce(ones)
    yield "in place", lambda: world.allreduce(ones, ones)
    yield "no axis", lambda: world.allreduce(numpy.array(2.0))
    yield "empty", lambda: world.allreduce(numpy.empty((0, 3)))
    yield "scaled", lambda: world.allreduce(numpy.ones(2), prescale=2,
                                            postscale=0.5, deadline=60)
    yield "averaged", lambda: world.allreduce(ones, op=regroup.AVG, tag="a")
    yield "strided", lambda: world.allreduce(strided)
    yield "fixed", lambda: world.allreduce(fixed, fixed)
    yield "sent only", lambda: world.allreduce(fixed)
    yield "short out", lambda: world.allreduce(ones, numpy.ones(5))
    yield "other out", lambda: world.allreduce(numpy.ones(3), fixed)
    yield "type of out", lambda: world.allreduce(ones, ones.astype("f4"))
    yield "swapped", lambda: world.allreduce(ones.astype(">f8"))
    yield "complex", lambda: world.allreduce(ones.astype("c8"))
    yield "i2", lambda: world.allreduce(ones.astype("i2"))
    yield "text", lambda: world.allreduce(numpy.array([b"a"]))
    yield "masked", lambda: world.allreduce(
        numpy.ma.masked_array([1.0, 2.0], [True, False]))
    yield "scalar", lambda: world.allreduce(numpy.float64(1))
    yield "shapes", lambda: world.allreduce(
        numpy.ones((2, 3) if ctx.rank else (3, 2)))
    yield "counts", lambda: world.allreduce(numpy.ones(1 + ctx.rank))
    yield "tags", lambda: world.allreduce(ones, tag=ctx.rank + 1)
    yield "op as out", lambda: world.allreduce(ones, regroup.MAX)


def other_calls(world, ctx):
    import regroup
    from numpy import ones
    yield "array", lambda: world.allreduce(array.array("i", [1, 2]))
    yield "bytes", lambda: world.allreduce(b"ab", bytearray(2))
    yield "to bytes", lambda: world.allreduce(bytearray(2), b"ab")
    yield "bytearray", lambda: world.allreduce(bytearray(b"ab"))
    yield "view", lambda: world.allreduce(memoryview(bytearray(b"ab")),
                                          bytearray(2))
    yield "list", lambda: world.allreduce([1, 2])
    yield "nothing", lambda: world.allreduce(None)
    yield "op", lambda: world.allreduce(ones(2), op=99)
    yield "no op", lambda: world.allreduce(ones(2), op="sum")
    yield "prescale", lambda: world.allreduce(ones(2), prescale=0)
    yield "deadline", lambda: world.allreduce(ones(2), deadline=-1)
    yield "started", lambda: world.start_allreduce(ones(2)).wait()
    yield "refused", lambda: world.start_allreduce(ones(2), op=99)
    data = [ones(2) * ctx.rank, ones((2, 2)), array.array("f", [1])]
    yield "grouped", lambda: world.grouped_allreduce(data, data)
    yield "grouped new", lambda: world.grouped_allreduce(data[:2])
    yield "many", lambda: world.start_grouped_allreduce(
        [ones(50) * i for i in range(9)]).wait()
    yield "none", lambda: world.grouped_allreduce([])
    yield "few outs", lambda: world.grouped_allreduce(data, data[:1])
    yield "bad one", lambda: world.grouped_allreduce([ones(2), [1]])
    yield "bad op", lambda: world.grouped_allreduce(data, data, op=99)
    yield "groups differ", lambda: world.grouped_allreduce(
        [ones(2), ones(1 + ctx.rank)])
    yield "in a group", lambda: in_group(ctx, world.allreduce)
    yield "grouped in a group", lambda: in_group(
        ctx, lambda one: world.grouped_allreduce([one]))
    yield "started in a group", lambda: started_in_group(ctx, world)
    gone = ctx.set([0], name="gone")
    gone.destroy()
    yield "destroyed", lambda: gone.allreduce(ones(1))
    not_mine = ctx.set([1], name="one")
    if ctx.rank == 0:
        yield "not mine", lambda: not_mine.allreduce(ones(1))
        yield "not ours", lambda: not_mine.grouped_allreduce([ones(1)] * 2)
    by = ctx.set_by(lambda: 0, name="by")
    yield "by a rule", lambda: by.allreduce(ones(2))
    yield "still right", lambda: world.allreduce(ones(2))


def in_group(ctx, call):
    from numpy import ones
    with ctx.group():
        call(ones(1))


def started_in_group(ctx, world):
    from numpy import ones
    with ctx.group():
        requests = [world.start_allreduce(ones(2)),
                    world.start_grouped_allreduce([ones(3), ones(4)])]
    return [requests[0].wait(), *requests[1].wait()]


def torch_calls(world):
    import torch
    weight = torch.nn.Parameter(torch.ones(2, 3))
    negative = torch.ones(3, dtype=torch.complex64).conj().imag
    yield "tensor", lambda: world.allreduce(torch.arange(3))
    yield "rows", lambda: world.allreduce(torch.ones(2, 2))
    yield "parameter", lambda: world.allreduce(weight, weight)
    yield "halves", lambda: world.allreduce(torch.ones(2).bfloat16())
    yield "scalar", lambda: world.allreduce(torch.tensor(2.5))
    yield "strided", lambda: world.allreduce(torch.ones(2, 3).t())
    yield "negative", lambda: world.allreduce(negative.reshape(3))
    yield "complex", lambda: world.allreduce(torch.ones(2).to(torch.complex64))
    yield "sparse", lambda: world.allreduce(torch.eye(2).to_sparse())
    yield "meta", lambda: world.allreduce(torch.ones(2, device="meta"))
    yield "grouped", lambda: world.grouped_allreduce(
        [torch.ones(2), torch.ones(2, 2)])


def work():
    import regroup
    from regroup import _sets
    if os.environ.get("MIXED") and os.environ["REGROUP_SLOT"] == "1":
        assert _sets.fast is None, "REGROUP_PYTHON_FAST was not heeded"
    with regroup.init() as ctx:
        world = ctx.world
        for name, call in [*numpy_calls(world, ctx), *other_calls(world, ctx),
                           *torch_calls(world)]:
            said = outcome(call)
            sys.stdout.write(f"rank {ctx.rank} {name}: {said}\n")
        need_fast(world, _sets)
        assert not ctx.held, ctx.held
    said = outcome(lambda: world.allreduce(array.array("i", [1])))
    sys.stdout.write(f"rank after: {said}\n")


def need_fast(world, sets):
    """What is plain never comes to the way that is written in Python."""
    import numpy
    look = sets.look
    if sets.fast is not None:
        sets.look = None
    world.allreduce(numpy.ones((2, 2)))
    world.grouped_allreduce([numpy.ones(2)] * 2)
    sets.look = look


def lines(output):
    return sorted(line.split(" | ", 1)[-1] for line in output.splitlines()
                  if "rank " in line)


def test():
    from house import claim
    place = os.path.join(os.environ["REGROUP_BUILD"],
                         "lib/regroup_fast.abi3.so")
    if not os.path.exists(place):
        print("skipped: the compiled part is not built (python3-dev)")
        sys.exit(77)
    command = pyjob.command(modules=("numpy", "torch"))
    fast = lines(pyjob.job(2, command))
    # Rank 1 without it.
    mixed = lines(pyjob.job(
        2, ["sh", "-c", 'test $REGROUP_SLOT = 0 || '
            'export REGROUP_PYTHON_FAST=off; exec "$@"', "sh", *command],
        MIXED="1"))
    claim(len(fast) > 300 and fast == mixed, "they differ:\n" + "\n".join(
        f"{a}\n{b}" for a, b in zip(fast, mixed) if a != b))


pyjob.main(work, test=test)
