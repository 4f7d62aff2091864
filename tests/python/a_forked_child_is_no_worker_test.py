"""A child that was forked from a worker says so at every call, and ends with
no trace: its parent's requests, arrays and sets go on."""
import gc
import os
import sys

import pyjob


def be_a_child(ctx, request, left):
    import regroup
    for call in (ctx.world.barrier, lambda: ctx.rank, lambda: ctx.set([0]),
                 ctx.state):
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


def work():
    import numpy
    import regroup
    with regroup.init() as ctx:
        left = [ctx.alloc(8, "f4"), ctx.state()]
        request = None
        if ctx.rank == 0:
            request = ctx.world.start_allreduce(numpy.ones(1000))
        child = os.fork()
        if child == 0:
            be_a_child(ctx, request, left)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        request = request or ctx.world.start_allreduce(numpy.ones(1000))
        assert (request.wait() == ctx.size).all()
        left[0] += 1
        ctx.world.barrier()


pyjob.main(work, sizes=(1, 2))
