"""State.stop on one rank ends the job for all at the step that is under way:
it is committed, no rank begins another one, the job is done, and its last step
is a checkpoint.

Covers: _context.py"""
import sys
import tempfile

import pyjob

LAST = 7


def work():
    import numpy
    import regroup

    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        total = state.add("total", numpy.zeros(1, "i8"))

        def train():
            while True:
                total[:] += 1
                if state.step + 1 == LAST and ctx.rank == ctx.size - 1:
                    state.stop()
                if "step_end" in sys.argv:
                    state.step_end()
                else:
                    state.commit()
        try:
            state.stop()
            raise AssertionError("it was stopped outside of fn")
        except regroup.Invalid:
            pass
        assert state.run(train) is None
        assert state.step == total[0] == LAST, (state.step, total)


def test():
    from checkpoints import steps
    for kind, size in ("commit", 1), ("commit", 3), ("step_end", 2):
        with tempfile.TemporaryDirectory(prefix="rg-ckpt-") as folder:
            pyjob.job(size, pyjob.command(kind),
                      REGROUP_CHECKPOINT_DIR=folder)
            assert steps(folder) == [LAST], steps(folder)


pyjob.main(work, test=test)
