"""A training function or one of on_reset that is a coroutine or a generator,
whose body a call does not run, ends run with a sentence: else the job would be
done, with nothing trained.

Covers: _state.py"""
import sys

import pyjob


async def coroutine(*_):
    raise AssertionError("who runs this?")


def generator(*_):
    yield


async def both(*_):
    yield

FUNCTIONS = {one.__name__: one for one in (coroutine, generator, both)}


def work():
    import regroup
    function = FUNCTIONS[sys.argv[2]]
    with regroup.init(elastic=True) as ctx:
        state, train = ctx.state(), regroup.run(function)
        if sys.argv[3] == "on_reset":
            state.on_reset(function)
            train = regroup.run(lambda _: 0)
        try:
            train(state)
            raise AssertionError("it was taken for run")
        except regroup.Invalid as error:
            assert "did not run" in error.sentence, error
            assert ("on_reset" in error.sentence) == (
                sys.argv[3] == "on_reset"), error


def test():
    for name in FUNCTIONS:
        for place in "run", "on_reset":
            pyjob.job(1, pyjob.command(name, place, modules=()))


pyjob.main(work, test=test)
