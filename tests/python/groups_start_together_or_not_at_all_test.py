"""Collectives of a group start at its end: mixed types, two sets, equal to the
single ones. None starts when the program raises in between or ranks group
different things; waiting in a group is a mistake, not a deadlock, and a call
that waits starts nothing there.

Covers: _sets.py"""
import asyncio

import pyjob


async def awaits(request):
    return await asyncio.wait_for(request, 20)


def check_results(ctx, beside):
    import numpy
    import regroup
    n = ctx.size
    with ctx.group():
        requests = [
            (beside if k % 3 == 0 else ctx.world).start_allreduce(
                numpy.full(k, k, ("f4", "i8", "f2")[k % 3]))
            for k in range(1, 30)]
        requests.append(ctx.world.start_allgather(numpy.array([ctx.rank])))
        for call in (requests[0].wait,
                     lambda: asyncio.run(awaits(requests[0]))):
            try:
                call()
                raise AssertionError("a wait inside of a group")
            except regroup.Invalid as error:
                assert "group" in error.sentence, error
        assert not requests[0].test()
    *sums, ranks = regroup.wait_all(requests, timeout=20)
    for k, found in enumerate(sums, 1):
        assert (found == k * n).all() and len(found) == k, (k, found)
    assert list(ranks) == list(range(n))
    with ctx.group():
        pass


def check_waiting_calls(ctx):
    """In C such a call ends the whole group, also when it is made light of."""
    import numpy
    import regroup
    world, ones, out = ctx.world, numpy.ones(ctx.size), numpy.zeros(ctx.size)
    calls = {"allreduce": lambda: world.allreduce(ones, out),
             "barrier": world.barrier,
             "allgatherv": lambda: world.allgatherv(ones, out),
             "gatherv": lambda: world.gatherv(ones),
             "alltoallv": lambda: world.alltoallv(ones, [1] * ctx.size, out)}
    for name, call in calls.items():
        sentences = []
        try:
            with ctx.group():
                request = world.start_allreduce(ones, out)
                try:
                    call()
                except regroup.Invalid as error:
                    sentences.append(error.sentence)
        except regroup.Invalid as error:
            sentences.append(error.sentence)
        assert len(sentences) == 2, (name, sentences)
        assert all(f"start_{name} there" in one for one in sentences), sentences
        try:
            request.wait()
            raise AssertionError("a group with a call that waits has started")
        except regroup.Invalid:
            pass
        assert (world.allreduce(ones) == ctx.size).all() and not out.any()


def check_none_starts(ctx):
    import numpy
    import regroup
    given, out = numpy.ones(3), numpy.zeros(3)
    try:
        with ctx.group():
            request = ctx.world.start_allreduce(given, out)
            raise KeyError("of the program's own")
    except KeyError:
        pass
    try:
        request.wait(5)
        raise AssertionError("it has started")
    except regroup.Invalid:
        assert not out.any()
    assert ctx.world.allreduce(given)[0] == ctx.size
    if ctx.size == 1:
        return
    with ctx.group():
        requests = [ctx.world.start_allreduce(given),
                    ctx.world.start_broadcast(given, root=ctx.rank % 2)]
    for request in requests:
        try:
            request.wait()
            raise AssertionError("ranks grouped different things")
        except regroup.Mismatch:
            pass
    assert ctx.world.allreduce(given)[0] == ctx.size


def work():
    import regroup
    with regroup.init() as ctx:
        beside = ctx.set(range(ctx.size - 1, -1, -1))
        check_results(ctx, beside)
        check_waiting_calls(ctx)
        check_none_starts(ctx)


pyjob.main(work)
