"""A coroutine that awaits a request stops at once when its time is over, it is
cancelled or Ctrl-C comes, and asyncio.run ends; the request stays in flight.
However many requests are awaited, one that completes goes on.

Covers: _wait.py"""
import asyncio
import os
import signal
import threading
import time

import pyjob

MANY = 40  # more than the threads of a loop's pool


def ends_early(ctx, end, kind):
    """On rank 0, before the others start theirs."""
    import numpy
    gate = ctx.set(range(ctx.size), name="gate")
    if ctx.rank != 0:
        gate.barrier()
    request = ctx.world.start_allreduce(numpy.ones(1))
    if ctx.rank == 0:
        try:
            asyncio.run(end(request))
            raise AssertionError("the others have not even started")
        except kind:
            assert not request.test()
        gate.barrier()
    assert (request.wait() == ctx.size).all()


async def is_timed(request):
    await asyncio.wait_for(request, 0.1)


async def is_interrupted(request):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    await request


async def is_cancelled(request):
    async def body():
        await request
    task = asyncio.create_task(body())
    await asyncio.sleep(0.1)
    task.cancel()
    await task


async def awaits_many(ctx):
    """Those that the others start only when they have heard of the last."""
    sets = [ctx.set(range(ctx.size)) for _ in range(MANY)]

    async def one(members):
        await members.start_barrier()
    if ctx.rank != 0:
        await one(sets[-1])
        await one(ctx.world)
    order = sets if ctx.rank == 0 else sets[:-1]
    waiting = asyncio.gather(*map(one, order[:-1]))
    if ctx.rank == 0:
        await asyncio.sleep(0)  # they come before it
        await one(sets[-1])
        await one(ctx.world)
    else:
        await one(order[-1])
    await waiting


def work():
    import regroup
    with regroup.init() as ctx:
        begin = time.monotonic()
        ends_early(ctx, is_timed, (TimeoutError, asyncio.TimeoutError))
        ends_early(ctx, is_cancelled, asyncio.CancelledError)
        ends_early(ctx, is_interrupted, KeyboardInterrupt)
        asyncio.run(asyncio.wait_for(awaits_many(ctx), 60))
        print(f"after {time.monotonic() - begin:.1f} s")
        ctx.world.barrier()


pyjob.main(work, sizes=(2,))
