"""A program and modules inside it call init each for itself, from any thread:
they share one world, and the last finalize leaves it.

Covers: worker/init.c _context.py"""
import threading

import pyjob


def work():
    import numpy
    import regroup
    found = []

    def module():
        ctx = regroup.init()
        assert ctx.size >= 1
        found.append(ctx)

    program = regroup.init(elastic=False)
    threads = [threading.Thread(target=module) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {ctx.handle for ctx in found} == {program.handle}
    try:
        regroup.init(elastic=True)
        raise AssertionError("an elastic world was made beside a static one")
    except regroup.Invalid as error:
        assert "static" in error.sentence, error
    for ctx in found:
        ctx.finalize()
    total = program.world.allreduce(numpy.ones(1))
    assert total[0] == program.size
    assert regroup.current() is program
    program.finalize()
    assert regroup.current() is None
    try:
        regroup.init()
        raise AssertionError("a second world was made")
    except regroup.Invalid as error:
        assert "one world" in error.sentence, error


pyjob.main(work)
