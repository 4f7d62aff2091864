"""load restores what save wrote, and returns its step; before the first
checkpoint it returns None, and other arrays are refused.

Covers: _state.py state/load.c"""
import sys
import tempfile

import pyjob


def work():
    import numpy
    import regroup
    directory, part = sys.argv[2:4]
    weights = numpy.zeros(1000, "f8")
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        state.add("weights", weights if part != "other" else weights[:10])
        if part == "other":
            try:
                state.load(directory)
                raise AssertionError("another size was loaded")
            except regroup.Invalid as error:
                assert "weights" in error.sentence, error
            return
        begun = state.load(directory)
        assert begun == (None if part == "first" else 3)
        assert state.saved == begun and (weights == (begun or 0)).all()

        def train():
            while state.step < (begun or 0) + 3:
                weights[:] += 1
                state.save(directory)
        state.run(train)
        assert state.saved == state.step == (begun or 0) + 3


def test():
    with tempfile.TemporaryDirectory(prefix="rg-ckpt-") as folder:
        for part in "first", "second", "other":
            pyjob.run(pyjob.command(folder, part))


pyjob.main(work, test=test)
