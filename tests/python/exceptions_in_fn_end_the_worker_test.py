"""Any other exception in the training function, and one in a reset function,
ends the worker with its traceback and a code that is not 0; the others go on.
So does a RegroupError that is the program's own mistake, and what on_commit
raises: from the commit, or, if only the next generation knows that the step
counts, before another step.

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


def raises_when_told():
    import numpy
    import regroup
    raised = []
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        total = state.add("total", numpy.zeros(1, "i8"))

        def told(step):
            if step == 8 and ctx.slot == 1:
                raised.append(step)
                raise ValueError("a mistake in on_commit")

        def train():
            if raised:
                print("another step", flush=True)
            while total[0] < 12:
                total[:] += 1
                state.commit()
        state.on_commit(told)
        state.run(train)


def work():
    import time

    import numpy
    import regroup
    if sys.argv[2] == "told":
        raises_when_told()
        return
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
    for late in "", ("commit.after_agree:rank0:step8:start1:kill,"
                     "coll.middle:rank1:step7:start1:sleep300"):
        with Job(["-n", "2"], pyjob.command("told"), env=pyjob.environment(
                REGROUP_FAILPOINT=late)) as job:
            job.finish()
            claim("a mistake in on_commit" in job.text() and
                  "another step" not in job.text(), job.text())
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
