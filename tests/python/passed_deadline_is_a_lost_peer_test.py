"""An operation with a deadline that a late member makes pass ends as PeerLost
on all ranks, with a sentence; the next generation has the same workers.

Covers: _errors.py"""
import os
import tempfile
import time

import pyjob


def work():
    import regroup
    seen, ended = [], os.environ["ENDED"]
    with regroup.init(elastic=True) as ctx:
        def train():
            while ctx.rank == 1 and not os.path.exists(ended):
                time.sleep(0.01)
            try:
                ctx.world.barrier(
                    deadline=0.3 if ctx.generation == 1 else None)
            except regroup.PeerLost as error:
                seen.append(error.sentence)
                with open(ended, "w", encoding="ascii"):
                    pass
                raise
            return ctx.generation, ctx.size
        generation, size = ctx.state().run(train)
    assert generation > 1 and size == 2, (generation, size)
    assert len(seen[-1] or "") > 20, seen


def test():
    with tempfile.TemporaryDirectory(prefix="rg-late-") as folder:
        pyjob.job(2, pyjob.command(modules=()),
                  ENDED=os.path.join(folder, "ended"))


pyjob.main(work, test=test)
