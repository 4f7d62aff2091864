"""While a thread waits in a collective, other Python threads run: the barrier
that rank 0 waits in ends only because a thread of rank 0 lets rank 1 go.

Covers: _wait.py"""
import os
import tempfile
import threading
import time

import pyjob


def work():
    import regroup
    from regroup import _wait
    _wait.SLICE_MS = 600000  # what lets others run is the call, not its end
    gate = os.environ["GATE"]
    with regroup.init() as ctx:
        if ctx.rank == 1:
            while not os.path.exists(gate):
                time.sleep(0.01)
            ctx.world.barrier()
            return
        turns = []

        def run():
            for turn in range(200):  # the interpreter's lock 200 times
                turns.append(turn)
                time.sleep(0.001)
            with open(gate, "w", encoding="ascii"):
                pass
        thread = threading.Thread(target=run)
        thread.start()
        ctx.world.barrier()
        assert len(turns) == 200, turns
        thread.join()


def test():
    with tempfile.TemporaryDirectory(prefix="rg-gate-") as folder:
        pyjob.job(2, pyjob.command(modules=()),
                  GATE=os.path.join(folder, "gate"))


pyjob.main(work, test=test)
