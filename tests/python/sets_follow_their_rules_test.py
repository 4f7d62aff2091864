"""Sets by rule, by split and by ranks: their members, order and names; ranks
translated between them, lists of them; an exception from a colour
function is raised, and a destroyed set says that it is destroyed.

Covers: _sets.py"""
import pyjob


def check_split(ctx):
    import numpy
    made = ctx.split(ctx.rank % 2, key=-ctx.rank, name="halves")
    ranks = [r for r in range(ctx.size) if r % 2 == ctx.rank % 2][::-1]
    assert list(made.allgather(numpy.array([ctx.rank]))) == ranks
    assert made.rank == ranks.index(ctx.rank) and made.name == "halves"
    assert made.translate(range(made.size), ctx.world) == ranks
    assert ctx.world.translate(ranks, made) == list(range(len(ranks)))
    assert ctx.world.translate([(ctx.rank + 1) % 2], made) == [-1]
    nobody = ctx.split(None if ctx.rank == 0 else 1)
    assert (nobody.rank == -1) == (ctx.rank == 0)
    made.destroy()
    nobody.destroy()


def check_rule(ctx):
    import numpy
    import regroup
    asked = []

    def color():
        asked.append(ctx.rank)
        return ctx.rank // 2
    pairs = ctx.set_by(color, name="pairs")
    assert asked == [ctx.rank]
    first = ctx.rank // 2 * 2
    assert list(pairs.allgather(numpy.array([ctx.rank]))) == [
        r for r in (first, first + 1) if r < ctx.size]
    pairs.destroy()
    try:
        ctx.set_by(lambda: 1 // 0)
        raise AssertionError("the function's own exception is lost")
    except ZeroDivisionError:
        pass
    try:
        pairs.barrier()
        raise AssertionError("a destroyed set was used")
    except regroup.Invalid as error:
        assert "destroyed" in error.sentence


def check_list(ctx):
    assert ctx.sets()[0] == (0, "world", ctx.size, ctx.rank)
    with ctx.set([1, 0], name="pair") as pair:
        for k in range(20):
            ctx.set([k % ctx.size])
        found = ctx.sets()
        assert len(found) > 20 and [s.id for s in found] == sorted(
            s.id for s in found)
        mine, = (info for info in found if info.name == "pair")
        assert (mine.id, mine.size, mine.rank) == (pair.id, 2, pair.rank)
        assert pair.rank == {0: 1, 1: 0}.get(ctx.rank, -1)
        assert "pair" in repr(pair) and ctx.set([1, 0], name="pair") is pair
    assert "gone" in repr(pair)
    with ctx.set([1, 0], name="pair") as pair:
        pair.destroy()  # before its with block ends


def work():
    import regroup
    with regroup.init() as ctx:
        check_list(ctx)
        check_split(ctx)
        check_rule(ctx)


pyjob.main(work, sizes=(2, 5))
