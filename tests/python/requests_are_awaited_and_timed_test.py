"""A wait with a timeout raises InProgress and leaves the request in flight; a
coroutine awaits requests while the loop runs; waiting again gives the same
again, also the same error; several threads may wait for one request, each as
long as it says; a generator may start what wait_all waits for.

Covers: _wait.py"""
import asyncio
import threading
import time

import pyjob


def check_timeout(ctx):
    import numpy
    import regroup
    gate = ctx.set(range(ctx.size), name="gate")
    if ctx.rank != 0:
        gate.barrier()
    request = ctx.world.start_allreduce(numpy.ones(3))
    if ctx.rank == 0 and ctx.size > 1:
        for timeout in 0, 0.05:
            try:
                request.wait(timeout)
                raise AssertionError("the others have not even started")
            except TimeoutError as error:
                assert isinstance(error, regroup.InProgress)
                assert error.advice == regroup.Advice.RETRY
        assert not request.test()
        check_looking_on(request)
    if ctx.rank == 0:
        gate.barrier()
    found = []
    threads = [threading.Thread(target=lambda: found.append(request.wait()))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert request.test() and (request.wait(0) == ctx.size).all()
    assert len(found) == 3 and all(one is found[0] for one in found)


def check_looking_on(request):
    """While another thread waits, for longer than this test may take."""
    import regroup
    from regroup import _wait
    usual, _wait.SLICE_MS = _wait.SLICE_MS, 600000
    threading.Thread(target=request.wait).start()
    while not request._lock.locked():
        time.sleep(0.001)
    _wait.SLICE_MS = usual
    for _ in range(10):
        try:
            request.wait(0.01)
            raise AssertionError("the others have not even started")
        except regroup.InProgress:
            assert not request.test()


def check_generators(ctx):
    """Which start in another order on each rank."""
    import numpy
    import regroup
    sets = [ctx.set(range(ctx.size)) for _ in range(2)]
    if ctx.rank % 2:
        sets.reverse()
    found = regroup.wait_all(
        (one.start_allreduce(numpy.ones(1)) for one in sets), timeout=60)
    assert [list(one) for one in found] == [[ctx.size]] * 2
    assert list(regroup.wait_all(iter([ctx.world.start_allreduce(
        numpy.ones(1))]), timeout=float("inf"))[0]) == [ctx.size]


def check_errors_again(ctx):
    import numpy
    import regroup
    request = ctx.world.start_allreduce(numpy.ones(1 + ctx.rank % 2))
    errors = []
    for _ in range(2):
        try:
            request.wait()
        except regroup.Mismatch as error:
            errors.append(error)
    assert len(errors) == 2 and errors[0] is errors[1]


async def check_await(ctx):
    import numpy
    ticks = []

    async def tick():
        while len(ticks) < 20:
            await asyncio.sleep(0.005)
            ticks.append(time.monotonic())
        if ctx.rank != 0:
            ctx.world.start_barrier()

    async def reduce(n):
        return (await ctx.world.start_allreduce(numpy.full(2, n)))[0]

    first = asyncio.gather(reduce(1), reduce(2), tick())
    assert (await first)[:2] == [ctx.size, 2 * ctx.size]
    if ctx.rank == 0:
        await ctx.world.start_barrier()


def work():
    import regroup
    with regroup.init() as ctx:
        check_timeout(ctx)
        if ctx.size > 1:
            check_errors_again(ctx)
        check_generators(ctx)
        asyncio.run(check_await(ctx))
        ctx.world.barrier()


pyjob.main(work)
