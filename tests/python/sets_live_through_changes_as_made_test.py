"""After a kill a set of ranks raises SetEnded, one to keep has shrunk, and one
by rule has been made again, also for the replacement that joins."""
import re

import pyjob


def work():
    import time

    import numpy
    import regroup

    def train(state):
        ctx = state.context
        rule = ctx.set_by(lambda: 0, name="all")  # the one that was made
        told = ctx.generation
        if told == 1:
            plain = ctx.set([0, 1, 2], name="plain")
            kept = ctx.set([2, 1, 0], name="kept", keep=True)
            state.sets = plain, kept
        elif hasattr(state, "sets"):
            plain, kept = state.sets
            for call in (plain.barrier, lambda: plain.reduce_scatter(
                    numpy.ones(4), numpy.ones(1), counts=[1, 1, 2])):
                try:
                    call()
                except regroup.SetEnded as error:
                    print(f"plain ended: {error.advice.name}", flush=True)
            ranks = kept.allgather(numpy.array([ctx.rank]))
            print(f"kept {kept.size} {ranks.tolist()}", flush=True)
        while pyjob.goes_on(ctx):
            found = rule.allreduce(numpy.ones(1))
            assert found[0] == rule.size == ctx.size
            if told:
                print(f"rule in {told} has {rule.size}", flush=True)
                told = 0
            time.sleep(0.005)
            state.commit()

    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        state.add("x", numpy.zeros(1))
        state.run(lambda: train(state))


def test():
    from house import Job, claim
    with Job(["--min", "1", "--max", "3"],
             pyjob.command(pyjob.UNTIL_FINISH),
             env=pyjob.environment()) as job:
        job.wait_step(10)
        job.kill(1)
        job.wait_world(2, above=1)
        job.wait_world(3, above=2)
        job.finish()
        job.check()
        text = job.text()
    for words, least in ((r"plain ended: FIX", 4), (r"kept 2 \[1, 0\]", 2),
                         (r"rule in 1 has 3", 3), (r"rule in 2 has 2", 2),
                         (r"rule in 3 has 3", 3)):
        claim(len(re.findall(words, text)) >= least,
              f"not {least} times {words!r} in\n{text}")


pyjob.main(work, test=test)
