"""An operation with a deadline that a late member makes pass ends as PeerLost
on all ranks, with a sentence; the next generation has the same workers.

Covers: _errors.py"""
import pyjob


def work():
    import time

    import regroup
    seen = []
    with regroup.init(elastic=True) as ctx:
        def train():
            if not seen and ctx.rank == 1:
                seen.append(None)
                time.sleep(1.5)
            try:
                ctx.world.barrier(deadline=0.3)
            except regroup.PeerLost as error:
                seen.append(error.sentence)
                raise
            return ctx.generation, ctx.size
        generation, size = ctx.state().run(train)
    assert generation > 1 and size == 2, (generation, size)
    assert len(seen[-1] or "") > 20, seen


pyjob.main(work, sizes=(2,), modules=())
