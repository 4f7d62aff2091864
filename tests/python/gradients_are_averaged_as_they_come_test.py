"""A regroup.Reducer averages tensors that threads have ready in any order, each
rank in another one: as numpy does, with all four types of floats, with halves
on the way, on a set, with a tensor that a rank leaves out, and by Adasum, as
Set.adasum does alone. Arrays of its tensors outlive it and finalize; a set that
is lent to one can't be destroyed before. Ranks whose tensors differ are told
which one, and a step goes on after a kill.

Covers: _reducer.py _context.py _sets.py"""
import os
import signal
import threading

import pyjob


def values(numpy, step, rank, i):
    return numpy.random.default_rng(100 * step + 10 * rank + i) \
        .standard_normal(5 + 300 * i)


def averages(regroup, numpy, ctx, n, me):
    kinds = ["float64", numpy.float32, numpy.dtype("float16"), "bfloat16"]
    reducer = regroup.Reducer(ctx.world)
    for i, kind in enumerate(kinds):
        assert reducer.add(f"t{i}", (5 + 300 * i,), kind) == i
    tensors = [reducer.tensor(i) for i in range(4)]
    assert not tensors[0].any() and tensors[2].dtype == "float16"
    for step in range(12):
        reducer.start_step()
        for i in range(3):
            tensors[i][:] = values(numpy, step, me, i)
        tensors[3][:] = (numpy.full(905, me, "f4").view("u4") >> 16)
        order = numpy.random.default_rng(me + step).permutation(4)
        threads = [threading.Thread(target=reducer.ready, args=(int(i),))
                   for i in order]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        reducer.finish()
        for i, limit in enumerate((1e-15, 1e-6, 2e-3)):
            mean = sum(values(numpy, step, r, i) for r in range(n)) / n
            assert numpy.allclose(tensors[i], mean, rtol=limit, atol=limit)
        found = (tensors[3].astype("u4") << 16).view("f4")
        assert (found == (n - 1) / 2).all(), found
    assert reducer.counts().tensors == 4 and reducer.counts().steps == 12


def options(regroup, numpy, ctx, n, me):
    with ctx.set(range(n)[::-1], name="mine") as mine:
        reducer = regroup.Reducer(mine, compression="bf16", sum=True,
                                  may_miss=True, scale=2.0)
        for name, more in ("half", {}), ("whole", {"compression": "f16"}):
            reducer.add(name, (2, 2), "float32", **more)
        left, right = reducer.tensor(0), reducer.tensor(1)
        reducer.start_step()
        left[...] = 1 + 2 ** -9
        right[...] = me + 2 ** -9
        reducer.ready(0)
        if me:
            reducer.ready(1)
        reducer.finish()
        assert (left == 2 * n).all(), left  # bf16 has no 2**-9 beside 1
        exact = 2 * sum(r + 2 ** -9 for r in range(1, n))
        assert numpy.allclose(right, exact, rtol=2 ** -10), right
        assert n == 1 or right[0, 0] != round(exact), "as bf16 has it"
        del reducer
        try:
            mine.destroy()
            raise AssertionError("the set of a reducer was destroyed")
        except regroup.Invalid as error:
            assert "drop the Reducer" in error.sentence, error.sentence
        left = right = None
    mistakes(regroup, ctx, n, me)


def mistakes(regroup, ctx, n, me):
    for call, words in (
            (lambda: regroup.Reducer(ctx.world, compression="f8"), "'top_k'"),
            (lambda: regroup.Reducer(ctx.world).add("a", (1,), "int32"),
             "a reducer takes"),
            (lambda: regroup.Reducer(ctx.world).ready(0), "begun")):
        try:
            call()
            raise AssertionError(words)
        except regroup.Invalid as error:
            assert words in error.sentence, error.sentence
    try:
        regroup.Reducer(ctx.world, sums=True)
        raise AssertionError("an option that is not there was taken")
    except TypeError as error:
        assert "sums" in str(error)
    if n > 1:
        other = regroup.Reducer(ctx.world)
        other.add("odd", (1 + (me == 1),), "float32")
        try:
            other.start_step()
            raise AssertionError("tensors that differ were taken")
        except regroup.Mismatch as error:
            assert "odd" in error.sentence


def combined(numpy, parts):
    """Adasum's closed form for two; pairs of pairs."""
    while len(parts) > 1:
        pairs = []
        for a, b in zip(parts[::2], parts[1::2]):
            dot = a @ b
            pairs.append((1 - dot / (2 * a @ a)) * a
                         + (1 - dot / (2 * b @ b)) * b)
        parts = pairs
    return parts[0]


def adasum(regroup, numpy, ctx, n, me):
    mine = values(numpy, 7, me, 1)
    found = ctx.world.adasum(mine)
    assert found is not mine and (mine == values(numpy, 7, me, 1)).all()
    if n in (1, 2, 4):
        assert numpy.allclose(found, combined(
            numpy, [values(numpy, 7, r, 1) for r in range(n)]))
    reducer = regroup.Reducer(ctx.world, adasum=True)
    reducer.add("one", mine.shape, mine.dtype)
    tensor = reducer.tensor(0)
    reducer.start_step()
    tensor[:] = mine
    reducer.ready(0)
    reducer.finish()
    assert numpy.array_equal(tensor, found)
    assert numpy.array_equal(ctx.world.adasum(mine, mine), found)


def elastic(regroup, numpy):
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        total = state.add("total", numpy.zeros(1))
        reducer = regroup.Reducer(ctx.world)
        reducer.add("one", (1,), "float64")
        one = reducer.tensor(0)

        @regroup.run
        def train(state):
            while state.step < 8:
                reducer.start_step()
                if state.step == 4 and ctx.rank == 1 and ctx.generation == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                one[0] = ctx.rank
                reducer.ready(0)
                reducer.finish()
                total[0] += one[0]
                state.commit()
        train(state)
        assert total[0] == 8 * (ctx.size - 1) / 2, total


def work():
    import sys

    import numpy
    import regroup
    if sys.argv[-1] == "elastic":
        elastic(regroup, numpy)
        return
    with regroup.init() as ctx:
        n, me = ctx.size, ctx.rank
        averages(regroup, numpy, ctx, n, me)
        options(regroup, numpy, ctx, n, me)
        adasum(regroup, numpy, ctx, n, me)
        reducer = regroup.Reducer(ctx.world)
        reducer.add("last", (1 << 16,), "float64")
        last = reducer.tensor(0)
        del reducer
    last[:] = 1  # the library is left with it
    assert last.sum() == 1 << 16


def test():
    for size in 1, 2, 4:
        pyjob.job(size, pyjob.command())
    pyjob.job(2, pyjob.command("elastic"))


pyjob.main(work, test=test)
