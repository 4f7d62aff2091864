"""A signal whose handler raises reaches a wait while its operation completes:
the next wait has the result, or the error that it ended with.

Covers: _wait.py"""
import contextlib
import os
import signal
import threading

import pyjob

TRIES = 20


class Tick(Exception):
    """What the handler raises."""


def tick(*_):
    raise Tick


def interrupt(beside, is_waiting):
    """A signal for the thread that waits, and then what it waits for."""
    is_waiting.wait()
    os.kill(os.getpid(), signal.SIGALRM)
    beside.barrier()


def start_interrupted(ctx, beside, count):
    """The request of a wait that was interrupted; the others start theirs
    when the signal is on its way."""
    import numpy
    import regroup
    is_waiting = threading.Event()
    thread = threading.Thread(target=interrupt, args=(beside, is_waiting))
    thread.start()
    request = ctx.world.start_allreduce(numpy.ones(count, "i4"))
    try:
        is_waiting.set()
        while True:
            with contextlib.suppress(regroup.Mismatch):
                request.wait()
    except Tick:
        thread.join()
    return request


def check_wait(ctx, beside, is_wrong):
    import numpy
    import regroup
    count = 1000 + (is_wrong and ctx.rank)
    if ctx.rank == 0:
        request = start_interrupted(ctx, beside, count)
    else:
        beside.barrier()
        request = ctx.world.start_allreduce(numpy.ones(count, "i4"))
    try:
        found = request.wait()
        assert not is_wrong, "the error is lost"
        assert found is not None, "the result is lost"
        assert (found == ctx.size).all()
    except regroup.Mismatch as error:
        assert is_wrong and "allreduce" in error.sentence, error.sentence


def work():
    import regroup
    signal.signal(signal.SIGALRM, tick)
    with regroup.init() as ctx:
        beside = ctx.set(range(ctx.size), name="beside")
        for k in range(TRIES):
            check_wait(ctx, beside, is_wrong=k % 2)
        ctx.world.barrier()


pyjob.main(work, sizes=(2,))
