"""A program with a handler of SIGINT of its own: run leaves it in place inside
the training function, during waits in the library and after them.

Covers: _wait.py"""
import os
import signal

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


pyjob.main(work, sizes=(1,))
