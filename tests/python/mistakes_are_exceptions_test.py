"""Mistakes are one exception each, with status, advice and a sentence: where
ranks disagree on every rank, the set usable afterwards; local ones at once.

Covers: _errors.py"""
import pickle
import sys
import threading
import types

import pyjob


def raises(kind, call, *arguments, **named):
    import regroup
    try:
        call(*arguments, **named)
    except regroup.RegroupError as error:
        assert type(error) is kind, f"{error!r} is no {kind}"
        assert error.status == kind.status and error.sentence == str(error)
        assert len(error.sentence) > 20, error.sentence
        return error
    raise AssertionError(f"{call} raised nothing, not {kind}")


def check_that_each_status_is_one():
    import regroup
    from regroup._errors import error_of
    for status in regroup.Status:
        assert status >= 0 or \
            type(error_of(status, b"why")).status == status, status


def check_disagreements(ctx):
    import numpy
    import regroup
    world, odd = ctx.world, ctx.rank == 1
    wrong = [
        lambda: world.allreduce(numpy.ones(3 + odd, "f4")),
        lambda: world.allreduce(numpy.ones(4, "f4" if odd else "i4")),
        lambda: world.allreduce(numpy.ones(4),
                                op=regroup.MAX if odd else regroup.MIN),
        lambda: world.broadcast(numpy.ones(4), root=int(odd)),
        lambda: world.allreduce(numpy.ones(6), tag="ab"[odd]),
        lambda: world.broadcast(numpy.ones(6), tag=(4, (2 + odd, 3))),
        lambda: world.barrier() if odd else world.broadcast(numpy.ones(4)),
        lambda: ctx.set([0, 1] if odd else [1, 0])]
    for call in (lambda value: world.broadcast_object(value, 1),
                 world.allgather_object):
        try:
            call(threading.Lock() if odd else 1)
            raise SystemExit("an object that can't be pickled was taken")
        except Exception as error:
            assert odd or "rank 1 can't pickle" in str(error), error
    sys.modules["cloudpickle"] = types.SimpleNamespace(
        dumps=lambda value: pickle.dumps(value()))
    assert world.broadcast_object(lambda: "by it", 1) == "by it" or odd
    assert world.allgather_object(lambda: 5)[odd] == 5
    del sys.modules["cloudpickle"]
    for call in wrong:
        error = raises(regroup.Mismatch, call)
        assert error.advice == regroup.Advice.FIX
        assert (world.allreduce(numpy.ones(2, "i8")) == ctx.size).all()
    error = raises(regroup.Mismatch, world.allreduce, numpy.ones(6),
                   tag=7 + odd)
    assert " 8 on rank 1;" in error.sentence, error.sentence
    for call in world.allreduce, world.reduce_scatter:
        error = raises(regroup.Mismatch, call,
                       numpy.ones((6, 2, 3) if odd else (6, 3, 2)))
        assert "the tag or shape" in error.sentence, error.sentence
    assert world.allreduce(numpy.ones((2, 3)), tag=1).shape == (2, 3)
    two, three = numpy.arange(2, 4)  # whose names are not those of 2 and 3
    for tags in (2, two), (("w", (2, 3)), ("w", (two, three))), (
            "w", numpy.str_("w")), (0.5, numpy.float32(0.5)), (2, 2.0):
        assert world.allreduce(numpy.ones(6), tag=tags[odd])[0] == ctx.size
    for tag in numpy.ones(2), ("w", [2]), object(), float("nan"):
        error = raises(regroup.Invalid, world.allreduce, numpy.ones(6),
                       tag=tag)
        assert "give a name, a number" in error.sentence, error.sentence
    shape = regroup._sets._number_of_shape.__wrapped__
    assert shape((2, 3)) == shape((two, three))
    error = raises(regroup.Invalid, world.allreduce, numpy.ones(6),
                   regroup.AVG)
    assert "write op=regroup.AVG" in error.sentence, error.sentence


def check_words(ctx):
    """Advice is in Python's terms."""
    import numpy
    import regroup
    state = ctx.state()
    error = raises(regroup.Invalid, state.run, print)
    assert "regroup.init(elastic=True)" in error.sentence, error.sentence
    error = raises(regroup.Invalid, state.commit)
    assert "State.commit belongs inside" in error.sentence, error.sentence
    assert "State.run" in error.sentence, error.sentence
    error = raises(regroup.Invalid, state.stop)
    assert "State.stop belongs inside" in error.sentence, error.sentence
    error = raises(regroup.Invalid, state.add, 5, numpy.ones(1))
    assert "5, which is no str" in error.sentence, error.sentence
    state.add("w", numpy.ones(1))
    error = raises(regroup.Invalid, state.add, "w", numpy.ones(1))
    assert "rg_" not in error.sentence, error.sentence


def check_first_of_two(ctx):
    """Of several that failed wait_all raises the first."""
    import numpy
    import regroup
    odd = ctx.rank == 1
    both = [ctx.world.start_allreduce(numpy.ones(3 + odd, "f4")),
            ctx.world.start_broadcast(numpy.ones(4), root=int(odd))]
    error = raises(regroup.Mismatch, regroup.wait_all, both)
    assert "allreduce" in error.sentence, error.sentence


def check_local_ones(ctx):
    import numpy
    import regroup
    with ctx.set([ctx.size - 1], name="last") as last:
        if ctx.rank != ctx.size - 1:
            raises(regroup.NotMember, last.barrier)
    raises(regroup.Invalid, last.barrier)
    raises(regroup.Invalid, ctx.world.broadcast, numpy.ones(1), root=ctx.size)
    raises(regroup.Invalid, ctx.world.destroy)
    raises(regroup.Invalid, regroup.init, elastic=True)
    raises(regroup.Invalid, ctx.state().run, print)  # a static program
    try:
        ctx.world.broadcast(numpy.ones(1), root=-1)
    except ValueError as error:  # Invalid is one
        assert "-1" in str(error)


def work():
    import numpy
    import regroup
    with regroup.init() as ctx:
        check_that_each_status_is_one()
        check_local_ones(ctx)
        check_words(ctx)
        if ctx.size > 1:
            check_disagreements(ctx)
            check_first_of_two(ctx)
        world, left = ctx.world, ctx.world.start_allreduce(numpy.ones(1))
    for call in (world.barrier, lambda: ctx.rank, lambda: world.size,
                 lambda: ctx.set([0]), lambda: ctx.alloc(1, "f4"),
                 ctx.state):
        raises(regroup.Invalid, call)
    if left.test():
        return
    raise AssertionError("a request outlived finalize")


pyjob.main(work)
