"""A child that was forked from a worker says so at every call, also when it
looks at its parent's requests, for which another thread may have waited, and
ends without a trace: its parent's requests, arrays and sets go on. A child
that crashes does not cost its parent its place in the world either.

Covers: _context.py"""
import gc
import os
import signal
import sys
import threading
import time

import pyjob


def be_a_child(ctx, request, left):
    import regroup
    calls = [ctx.world.barrier, lambda: ctx.rank, lambda: ctx.set([0]),
             ctx.state]
    if request is not None:
        calls += [request.test, lambda: request.wait(60)]
    for call in calls:
        try:
            call()
            os._exit(1)
        except regroup.Invalid as error:
            if "forked" not in error.sentence:
                os._exit(2)
    ctx.finalize()
    del request, left
    gc.collect()
    sys.exit(0)  # with what atexit has


def check_crash():
    child = os.fork()
    if child == 0:
        os.abort()
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGABRT, status
    time.sleep(0.3)  # in which the agent would look at the page


def work():
    import numpy
    import regroup
    with regroup.init() as ctx:
        left = [ctx.alloc(8, "f4"), ctx.state()]
        request = waiter = None
        gate = ctx.set(range(ctx.size), name="gate")
        if ctx.rank == 0 and ctx.size > 1:
            request = ctx.world.start_allreduce(numpy.ones(1000))
            waiter = threading.Thread(target=request.wait)
            waiter.start()
        child = os.fork()
        if child == 0:
            be_a_child(ctx, request, left)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        check_crash()
        gate.barrier()
        request = request or ctx.world.start_allreduce(numpy.ones(1000))
        assert (request.wait() == ctx.size).all()
        if waiter is not None:
            waiter.join()
        left[0] += 1
        ctx.world.barrier()


pyjob.main(work, sizes=(1, 2))
