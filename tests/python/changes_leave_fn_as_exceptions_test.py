"""A death leaves the training function as PeerLost, an announced join as
HostsChanged; both only pass through: fn is called again from its top, with
registered memory as the last commit has it, and reset functions before it.
Each worker is told of each step that counts, once.

Covers: _state.py _errors.py"""
import re

import pyjob


def work():
    import time

    import numpy
    import regroup
    resets, told = [], []

    @regroup.run
    def train(state, total):
        assert len(resets) == resets[-1], "no reset before fn"
        try:
            while pyjob.goes_on(state.context):
                total += 1
                time.sleep(0.005)
                state.commit()
        except regroup.RegroupError as error:
            print(f"left by {type(error).__name__} {error.advice.name} in "
                  f"generation {state.context.generation}", flush=True)
            raise
        return "done"

    with regroup.init(elastic=True) as ctx:
        assert (ctx.rank, ctx.generation) == (-1, 0)
        state = ctx.state()
        state.on_reset(lambda: resets.append(len(resets) + 1))
        state.on_commit(told.append)
        total = state.add("total", numpy.zeros(1, "i8"))
        assert train(state, total) == "done"
        assert told == list(range(told[0], state.step + 1)), told
        assert total[0] == state.step > 0, (total, state.step)


def test():
    from house import Job, claim
    with Job(["--min", "1", "--max", "3"], pyjob.command(pyjob.UNTIL_FINISH),
             env=pyjob.environment()) as job:
        job.wait_step(20)
        job.kill(1)
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        job.finish()
        job.check()
        seen = re.findall(r"left by (\w+ \w+) in generation (\d+)", job.text())
    claim(seen.count(("PeerLost RESTORE", "1")) == 2,
          f"the death left no two survivors' fn: {seen}")
    claim(seen.count(("HostsChanged RESYNC", "2")) == 2,
          f"the join left no two members' fn: {seen}")


pyjob.main(work, test=test)
