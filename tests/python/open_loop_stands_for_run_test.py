"""The loop over State.generations is State.run: a kill leads to the next turn
with registered memory as in the commit, an exception ends the loop and passes,
and what stands outside of the with block is refused.

Covers: _state.py"""
import array
import os
import signal

import pyjob

STEPS = 60


def train(ctx, state, step, total):
    import regroup
    while step[0] < STEPS:
        one = array.array("q", [1])
        total[0] += ctx.world.allreduce(one, op=regroup.MAX)[0]
        step[0] += 1
        state.commit()
        if step[0] == 20 and ctx.generation == 1 and ctx.slot == 1:
            os.kill(os.getpid(), signal.SIGKILL)


def work():
    import regroup
    with regroup.init(elastic=True) as ctx:
        state, left = ctx.state(), []
        step, total = array.array("q", [0]), array.array("q", [0])
        state.add("step", step)
        state.add("total", total)
        ctx.on_leave.append(lambda: left.append(ctx.generation))
        turns = 0
        for generation in state.generations():
            with generation:
                turns += 1
                train(ctx, state, step, total)
        assert (step[0], total[0]) == (STEPS, STEPS), (step, total)
        print(f"slot {ctx.slot} is done after {turns} turns", flush=True)
        try:
            next(state.generations())
            raise AssertionError("the loop began again")
        except regroup.Invalid as error:
            assert "the job is done" in str(error), error


def fail():
    """Alone: an exception passes, and another loop is refused."""
    import regroup
    with regroup.init(elastic=True) as ctx:
        state, step = ctx.state(), array.array("q", [0])
        state.add("step", step)
        try:
            for generation in state.generations():
                with generation:
                    state.commit()
                    raise KeyError("mine")
        except KeyError:
            pass
        try:
            for generation in state.generations():
                raise AssertionError("the loop began again")
        except regroup.Invalid as error:
            assert "State.run has failed" in str(error), error


def without_with():
    import regroup
    with regroup.init(elastic=True) as ctx:
        state, step = ctx.state(), array.array("q", [0])
        state.add("step", step)
        try:
            for generation in state.generations():
                state.commit()
        except regroup.Invalid as error:
            assert "with generation" in str(error), error
            return
        raise AssertionError("a body without with passed")


def test():
    from house import claim
    output = pyjob.job(3, pyjob.command("kill"))
    claim(output.count("is done after") == 3, output)
    claim(output.count("is done after 1 turns") <= 1, output)
    for how in ("fail", "without_with"):
        pyjob.run(pyjob.command(how))


pyjob.main(lambda: {"kill": work, "fail": fail,
                    "without_with": without_with}[pyjob.sys.argv[2]](),
           test=test)
