"""ctx.world_wait gives the first workers ranks and collectives before run, and
tells a replacement that it joins.

Covers: world_wait.c"""
import os
import signal

import pyjob


def work():
    import numpy
    import regroup
    goods = numpy.zeros(1, numpy.int64)
    step = numpy.zeros(1, numpy.int64)

    @regroup.run
    def train(state):
        assert goods[0] == 4711
        try:
            state.context.world_wait()
            assert False, "inside of run"
        except regroup.Invalid as error:
            assert "Context.world_wait" in error.sentence, error.sentence
        while step[0] < 40:
            step[0] += 1
            if step[0] == 10 and ctx.slot == 1 and is_first:
                os.kill(os.getpid(), signal.SIGKILL)
            state.commit()

    with regroup.init(elastic=True) as ctx:
        is_first = ctx.world_wait()
        print(f"slot {ctx.slot} is first: {is_first} of {ctx.size}",
              flush=True)
        if is_first:
            if ctx.rank == 0:
                goods[0] = 4711
            ctx.world.broadcast(goods)
        state = ctx.state()
        state.add("goods", goods, constant=True)
        state.add("step", step)
        train(state)
        assert ctx.world_wait()


def test():
    from house import claim
    output = pyjob.job(2, pyjob.command())
    for slot in (0, 1):
        claim(f"slot {slot} is first: True of 2" in output, output)
    claim("slot 1 is first: False of -1" in output, output)


pyjob.main(work, test=test)
