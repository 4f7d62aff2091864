"""Any other exception in the training function, and one in a reset function,
ends the worker with its traceback and a code that is not 0; the others go on.
So does a RegroupError that is the program's own mistake.

Covers: _state.py"""
import os
import sys

import pyjob


def bring_down(how):
    import regroup
    if how == "value":
        raise ValueError("a mistake in the program")
    if how == "exit":
        sys.exit(9)
    if how == "invalid":
        regroup.init(elastic=False)  # beside one that is elastic
    raise regroup.InProgress("a timeout that was not caught")


def work():
    import time

    import numpy
    import regroup
    how, mark = sys.argv[2:4]
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        total = state.add("total", numpy.zeros(1, "i8"))

        def fails_once():
            if ctx.rank != 1 or os.path.exists(mark):
                return
            with open(mark, "w", encoding="ascii"):
                pass
            bring_down(how)

        def train():
            while pyjob.goes_on(ctx):
                if total[0] == 10 and how != "reset":
                    fails_once()
                total[:] += 1
                time.sleep(0.01)
                state.commit()
        if how == "reset":
            how = "value"
            state.on_reset(fails_once)
        state.run(train)
        assert total[0] == state.step > 0, (total, state.step)


def test():
    import tempfile

    from house import Job, claim, until
    for how, words in (("value", "ValueError: a mistake in the program"),
                       ("reset", "ValueError: a mistake in the program"),
                       ("exit", ""), ("invalid", "regroup._errors.Invalid"),
                       ("timeout", "a timeout that was not caught")):
        with tempfile.TemporaryDirectory(prefix="rg-mark-") as folder:
            mark = os.path.join(folder, "mark")
            with Job(["--min", "1", "--max", "2"], pyjob.command(how, mark, pyjob.UNTIL_FINISH),
                     env=pyjob.environment()) as job:
                code = 9 if how == "exit" else 1
                until(lambda: f"exited with code {code}" in job.text(), 20,
                      f"{how}: a worker that exited with {code}")
                until(lambda: any(e["generation"] > 1
                                  for e in job.events("step")), 20,
                      f"{how}: a step of the others")
                job.finish()
                text = job.text()
                claim(words in text, f"{how}: no traceback:\n{text}")


pyjob.main(work, test=test)
