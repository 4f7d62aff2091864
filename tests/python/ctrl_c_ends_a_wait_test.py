"""SIGINT during a wait for a late member raises KeyboardInterrupt at once, and
the request stays in flight; during a commit or in front of the door, where the
library waits, it ends the process as it ends a C program.

Covers: _wait.py"""
import os
import signal
import sys
import tempfile
import threading
import time

import pyjob


def interrupt_after(seconds):
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()


def in_a_wait():
    import numpy
    import regroup
    gate = os.environ["GATE"]
    with regroup.init() as ctx:
        while ctx.rank == 1 and not os.path.exists(gate):
            time.sleep(0.01)
        request = ctx.world.start_allreduce(numpy.ones(4, "i4"))
        if ctx.rank == 0:
            try:
                interrupt_after(0.2)
                request.wait()  # rank 1 comes behind its end
                raise AssertionError("no KeyboardInterrupt")
            except KeyboardInterrupt:
                with open(gate, "w", encoding="ascii"):
                    pass
        assert (request.wait() == ctx.size).all()
        ctx.world.barrier()


def in_a_commit():
    import numpy
    import regroup
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        state.add("x", numpy.zeros(1))

        def body():
            if ctx.rank == 1:
                time.sleep(30)
            else:
                interrupt_after(0.2)
            state.commit()
        state.run(body)


def work():
    {"wait": in_a_wait, "commit": in_a_commit}[sys.argv[2]]()


def test():
    with tempfile.TemporaryDirectory(prefix="rg-gate-") as folder:
        pyjob.job(2, pyjob.command("wait"), GATE=os.path.join(folder, "gate"))
    begin = time.monotonic()
    pyjob.job(2, pyjob.command("commit"), expected=130,
              flags=("--max-restarts", "0"))
    if time.monotonic() - begin > 25:
        sys.exit("SIGINT in a commit waited for the other rank")


pyjob.main(work, test=test)
