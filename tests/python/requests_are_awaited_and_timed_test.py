"""A wait with a timeout raises InProgress and leaves the request in flight; a
coroutine awaits requests while the loop runs; waiting again gives the same
again, also the same error; several threads may wait for one request."""
import asyncio
import threading
import time

import pyjob


def check_timeout(ctx):
    import numpy
    import regroup
    if ctx.rank != 0:
        time.sleep(0.3)
    request = ctx.world.start_allreduce(numpy.ones(3))
    if ctx.rank == 0 and ctx.size > 1:
        begin = time.monotonic()
        for timeout in 0, 0.05:
            try:
                request.wait(timeout)
                raise AssertionError("the others have not even started")
            except TimeoutError as error:
                assert isinstance(error, regroup.InProgress)
                assert error.advice == regroup.Advice.RETRY
        assert not request.test() and time.monotonic() - begin < 0.3
    found = []
    threads = [threading.Thread(target=lambda: found.append(request.wait()))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert request.test() and (request.wait(0) == ctx.size).all()
    assert len(found) == 3 and all(one is found[0] for one in found)


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
        asyncio.run(check_await(ctx))
        ctx.world.barrier()


pyjob.main(work)
