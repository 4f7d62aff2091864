"""Sets that an elastic program makes before run are declared, and are there in
it, by ranks and by rule; a split has no ranks to split before. An exception
from a rule's function there is raised once, whichever of two functions
declared under one name it comes from, and also by the call that finds the set
again.

Covers: _sets.py"""
import pyjob


def fails_once(ctx):
    """A colour function that fails on slot 0 when run applies it."""
    asked = []

    def color():
        if ctx.generation and ctx.slot == 0 and not asked:
            asked.append(True)
            raise KeyError
        return 0
    return color


def claim_raised_once(ctx, made, call):
    import regroup
    try:
        call()
        assert ctx.slot != 0, "the function's exception is lost"
    except KeyError:
        assert ctx.slot == 0
    except regroup.Invalid as error:
        assert ctx.slot != 0 and "other members" in error.sentence, error
    assert (made.rank < 0) == (ctx.slot == 0)


def work():
    import numpy
    import regroup
    with regroup.init(elastic=True) as ctx:
        pair = ctx.set([1, 0], name="pair")
        rule = ctx.set_by(lambda: ctx.rank % 2)
        assert pair.rank == rule.rank == -1
        ctx.set_by(lambda: 0, name="twice")
        twice = ctx.set_by(fails_once(ctx), name="twice")
        fails = fails_once(ctx)
        found = ctx.set_by(fails, name="found")
        for early in (pair.barrier, lambda: ctx.split(0)):
            try:
                early()
                raise AssertionError("a set was used before run")
            except regroup.Invalid as error:
                assert "before State.run" in error.sentence, error.sentence

        def train():
            assert (pair.size, pair.rank) == (2, {0: 1, 1: 0}.get(ctx.rank, -1))
            if pair.rank >= 0:
                ranks = pair.allgather(numpy.array([ctx.rank]))
                assert ranks.tolist() == [1, 0], ranks
            total = rule.allreduce(numpy.array([ctx.rank]))
            assert total[0] == sum(range(ctx.rank % 2, ctx.size, 2)), total
            assert ctx.set([1, 0], name="pair") is pair
            claim_raised_once(ctx, twice, lambda: twice.size)
            claim_raised_once(ctx, found,
                              lambda: ctx.set_by(fails, name="found"))
        ctx.state().run(train)


pyjob.main(work, sizes=(2, 5))
