"""A training function that is a coroutine or a generator, whose body a call
does not run, ends run with a sentence: else the job would be done, with
nothing trained."""
import sys

import pyjob


def work():
    import regroup

    @regroup.run
    async def coroutine(_):
        raise AssertionError("who runs this?")

    @regroup.run
    def generator(_):
        yield

    function = {"coroutine": coroutine, "generator": generator}[sys.argv[2]]
    with regroup.init(elastic=True) as ctx:
        try:
            function(ctx.state())
            raise AssertionError("it was taken for trained")
        except regroup.Invalid as error:
            assert "did not run" in error.sentence, error


def test():
    for kind in "coroutine", "generator":
        pyjob.job(1, pyjob.command(kind, modules=()))


pyjob.main(work, test=test)
