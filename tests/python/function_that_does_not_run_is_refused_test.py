"""A training function or one of on_reset, on_commit or on_break that is a
coroutine or a generator, whose body a call does not run, is refused at once,
or by run if a wrapper hides it: otherwise the job would be done without any
training.

Covers: _state.py _context.py"""
import sys

import pyjob


async def coroutine(*_):
    raise AssertionError("this never runs")


def generator(*_):
    yield


async def both(*_):
    yield

FUNCTIONS = {one.__name__: one for one in (coroutine, generator, both)}


def refused(what, call, *arguments):
    import regroup
    try:
        call(*arguments)
    except regroup.Invalid as error:
        assert "does not run" in error.sentence and \
            f"the {what} is" in error.sentence, error
        return
    raise AssertionError(f"it was taken for a {what}")


def refuse_at_once(ctx, state, function):
    import regroup
    refused("training function", regroup.run, function)
    refused("training function", state.run, function)
    refused("function of on_reset", state.on_reset, function)
    refused("function of on_commit", state.on_commit, function)
    refused("function of on_break", ctx.on_break, function)


def work():
    import regroup
    function = FUNCTIONS[sys.argv[2]]
    with regroup.init(elastic=True) as ctx:
        state = ctx.state()
        refuse_at_once(ctx, state, function)
        if sys.argv[3] == "run":
            refused("training function", state.run, lambda: function(state))
        else:
            state.on_reset(lambda: function(state))
            refused("function of on_reset", state.run, lambda: 0)


def test():
    for name, place in (("coroutine", "run"), ("generator", "run"),
                        ("both", "run"), ("generator", "on_reset")):
        pyjob.job(1, pyjob.command(name, place, modules=()))


pyjob.main(work, test=test)
