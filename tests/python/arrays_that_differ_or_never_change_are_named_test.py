"""An array that differs between ranks, and one that no step changes, are
named in a warning, unless they were added as such.

Covers: _state.py compare.c"""
import pyjob


def work():
    import numpy
    import regroup
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        step = state.add("step", numpy.zeros(1, "i8"))
        mean = state.add("mean", numpy.zeros(9), may_differ=True)
        noise = state.add("noise", numpy.zeros(9))
        state.add("table", numpy.ones(9), constant=True)
        state.add("frozen", numpy.ones(9))

        def train():
            while step[0] < 20:
                step[0] += 1
                mean[0] = noise[0] = step[0] + ctx.slot
                state.commit()
        state.run(train)


def test():
    from house import Job, claim
    with Job(["-n", "2"], pyjob.command(), env=pyjob.environment()) as job:
        job.finish()
        for word in ("buffer noise is not equal on all ranks in step 1: rank 1",
                     "no byte of buffer frozen has changed"):
            claim(job.text().count(word) == 1, f"not once {word!r}")
        for name in ("step", "mean", "table"):
            claim(f"buffer {name}" not in job.text(), f"{name} is named")


pyjob.main(work, test=test)
