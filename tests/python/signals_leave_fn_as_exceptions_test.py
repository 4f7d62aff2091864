"""If a signal's handler raises while run waits for another worker, or just
after the training function has returned, run raises that exception and the
worker ends; its slot starts again, and the job goes on.

Covers: _state.py _wait.py"""
import os
import signal
import sys
import threading
import time

import pyjob


class Told(Exception):
    """What the handler raises."""


def tell(*_):
    raise Told("by a signal")


def before(state, body):
    """The signal comes while run waits for the other worker."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    state.run(body)


def behind(state, body):
    """SIGINT comes as the training function has returned, and its handler is
    put back for the library's waits."""
    restore = signal.signal

    def interrupt_and_restore(number, handler):
        if handler is signal.SIG_DFL and body.calls:
            signal.signal = restore
            signal.raise_signal(signal.SIGINT)
        return restore(number, handler)
    signal.signal = interrupt_and_restore
    try:
        state.run(body)
    except KeyboardInterrupt as error:
        raise Told("by a signal") from error


class Body:
    def __init__(self, ctx):
        self.ctx = ctx
        self.calls = 0

    def __call__(self):
        self.calls += 1
        self.ctx.world.barrier()


def work():
    import regroup
    how, mark = sys.argv[2:4]
    signal.signal(signal.SIGTERM, tell)
    with regroup.init(elastic=True) as ctx:
        state, body = ctx.state(), Body(ctx)
        if ctx.slot == 1 and how == "before":
            while not os.path.exists(mark):
                time.sleep(0.02)
            time.sleep(0.6)  # the signal's time
        if ctx.slot == 1 or os.path.exists(mark):
            state.run(body)
            return
        with open(mark, "w", encoding="ascii"):
            pass
        {"before": before, "behind": behind}[how](state, body)
        raise AssertionError("the handler's exception is lost")


def test():
    import tempfile

    from house import claim
    for how in "before", "behind":
        with tempfile.TemporaryDirectory(prefix="rg-mark-") as folder:
            text = pyjob.job(2, pyjob.command(
                how, os.path.join(folder, "mark"), modules=()))
            claim("Told: by a signal" in text, f"{how}: {text}")
            claim("Exception ignored" not in text, f"{how}: {text}")
            claim("is lost" not in text, f"{how}: {text}")


pyjob.main(work, test=test)
