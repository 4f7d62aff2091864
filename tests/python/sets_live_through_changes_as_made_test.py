"""After a kill a set of ranks raises SetEnded, also where it never had members
or has none left, one to keep has shrunk, and one by rule has been made again,
also for the replacement that joins.

Covers: _sets.py"""
import re

import pyjob


def work():
    import time

    import numpy
    import regroup

    def claim_ended(name, members):
        """Arguments for three members are not what is wrong."""
        ones, three = numpy.ones(3), [1, 1, 1]
        for call in (lambda: members.start_alltoallv(ones, three, three),
                     lambda: members.start_allgatherv(ones[:1], three, ones),
                     lambda: members.start_reduce_scatter(ones, counts=three),
                     lambda: members.allgather(ones[:1], ones),
                     lambda: members.alltoallv(ones, three)):
            try:
                call()
                raise AssertionError("a set that has ended was used")
            except regroup.SetEnded:
                print(f"{name} ended", flush=True)

    def train(state):
        ctx = state.context
        rule = ctx.set_by(lambda: 0, name="all")  # the one that was made
        told = ctx.generation
        if told == 1:
            plain = ctx.set([0, 1, 2], name="plain")
            kept = ctx.set([2, 1, 0], name="kept", keep=True)
            lost = ctx.set([1], name="lost", keep=True)
            state.sets = plain, kept, lost
        elif hasattr(state, "sets"):
            plain, kept, lost = state.sets
            claim_ended("lost", lost)
            for call in (plain.barrier, lambda: plain.reduce_scatter(
                    numpy.ones(4), numpy.ones(1), counts=[1, 1, 2])):
                try:
                    call()
                except regroup.SetEnded as error:
                    print(f"plain ended: {error.advice.name}", flush=True)
            ranks = kept.allgather(numpy.array([ctx.rank]))
            print(f"kept {kept.size} {ranks.tolist()}", flush=True)
        else:
            claim_ended("declared", declared)
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
        declared = ctx.set([0, 1, 2], name="declared")
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
    for words, least in ((r"plain ended: FIX", 4), (r"lost ended", 10),
                         (r"declared ended", 5), (r"kept 2 \[1, 0\]", 2),
                         (r"rule in 1 has 3", 3), (r"rule in 2 has 2", 2),
                         (r"rule in 3 has 3", 3)):
        claim(len(re.findall(words, text)) >= least,
              f"not {least} times {words!r} in\n{text}")


pyjob.main(work, test=test)
