"""A program with a handler of SIGINT of its own: run leaves it in place inside
the training function, during waits in the library and after them. So is the
system's, by which Ctrl-C ends the process. A program whose threads are not the
interpreter's own, as where Python is embedded, runs as well.

Covers: _wait.py"""
import os
import signal
import sys

import pyjob


def work():
    import numpy
    import regroup
    came = []

    def own(*_):
        came.append(1)

    def check(where):
        found = signal.getsignal(signal.SIGINT)
        assert found is own, f"{where}: {found}"
    signal.signal(signal.SIGINT, own)
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        state.add("x", numpy.zeros(1))

        def train():
            check("in the training function")
            os.kill(os.getpid(), signal.SIGINT)
            state.commit()
            check("behind a commit")
        state.run(train)
        check("behind run")
        assert came == [1], came


# What imports threading first is its main thread, and not that of signals.
EMBEDDED = """
import _thread
def work():
    try:
        import regroup
        with regroup.init(elastic=True) as ctx:
            ctx.state().add("x", bytearray(8))
            print("ran", ctx.state().run(lambda: ctx.state().commit() or 7))
    finally:
        over.release()
over = _thread.allocate_lock()
over.acquire()
_thread.start_new_thread(work, ())
over.acquire()
"""

DEFAULT = """
import os, signal, regroup
signal.signal(signal.SIGINT, signal.SIG_DFL)
with regroup.init(elastic=True) as ctx:
    ctx.state().run(lambda: os.kill(os.getpid(), signal.SIGINT))
"""


def test():
    from house import claim
    pyjob.job(1, pyjob.command())
    said = pyjob.run([sys.executable, "-c", EMBEDDED])
    claim("ran 7" in said and "Traceback" not in said, said)
    said = pyjob.run([sys.executable, "-c", DEFAULT], -signal.SIGINT)
    claim("Traceback" not in said, said)


pyjob.main(work, test=test)
