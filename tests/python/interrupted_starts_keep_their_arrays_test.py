"""A signal whose handler raises while an operation is started: the operation
may run, and then its arrays are kept until it has completed, no longer.

Through the compiled part no handler runs between the start and the request;
without it one may run at any of Python's steps.

Covers: _sets.py _buffers.py reductions.c"""
import gc
import signal
import time
import weakref

import pyjob

TRIES = 300


class Tick(Exception):
    """What the handler raises."""


def tick(*_):
    raise Tick


def interrupted_start(ctx, sent, out):
    """The signal comes while the C side starts, and is seen behind that."""
    import regroup
    start = regroup._abi.lib.rg_allreduce_start

    def start_and_tick(*arguments):
        start(*arguments)
        signal.raise_signal(signal.SIGALRM)
    regroup._abi.lib.rg_allreduce_start = start_and_tick
    try:
        ctx.world.start_allreduce(sent, out)
        raise AssertionError("the handler's exception is lost")
    except Tick:
        pass
    regroup._abi.lib.rg_allreduce_start = start


def check_held(ctx):
    """Rank 0's start is interrupted, and the others' come behind that."""
    import numpy
    beside = ctx.set(range(ctx.size), name="beside")
    sent, out = numpy.ones(1 << 16, "i4"), numpy.zeros(1 << 16, "i4")
    is_there = weakref.ref(sent)
    if ctx.rank == 0:
        interrupted_start(ctx, sent, out)
        del sent
        gc.collect()
        assert is_there() is not None, "a buffer in flight is gone"
    beside.barrier()
    if ctx.rank != 0:
        ctx.world.allreduce(sent, out)
        del sent
    ctx.world.barrier()
    assert (out == ctx.size).all()
    ctx.world.barrier()  # a start gives back what has completed
    assert is_there() is None, "a buffer is held forever"


def check_anywhere(ctx):
    """The signal comes at some time or other: with its arrays gone, nothing is
    in flight."""
    import numpy
    out, gone = numpy.zeros(1 << 22, "i1"), 0
    for k in range(TRIES):
        sent, request = numpy.ones(1 << 22, "i1"), None
        is_there = weakref.ref(sent)
        try:
            signal.setitimer(signal.ITIMER_REAL, 20e-6 + k % 40 * 5e-6)
            request = ctx.world.start_allreduce(sent, out)
            while True:
                time.sleep(0.001)
        except Tick:
            pass
        del sent, request
        if is_there() is None:
            gone += 1
            assert ctx.world.start_barrier().test(), "in flight without arrays"
        ctx.world.barrier()
    assert gone < TRIES, "no start was interrupted"


def work():
    import regroup
    signal.signal(signal.SIGALRM, tick)
    with regroup.init() as ctx:
        if ctx.size == 1:
            check_anywhere(ctx)
        else:
            check_held(ctx)


def test():
    for size, fast in (1, "on"), (1, "off"), (2, "off"):
        pyjob.job(size, pyjob.command(), REGROUP_PYTHON_FAST=fast)


pyjob.main(work, test=test)
