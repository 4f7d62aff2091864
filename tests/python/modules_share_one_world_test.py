"""A program and modules inside it call init each for itself, from any thread:
they share one world, and the last finalize leaves it. What a module has started
and left goes on with its arrays, until then.

Covers: worker/init.c _context.py"""
import gc
import threading
import weakref

import pyjob


def start_and_leave(program):
    """A module leaves an operation in flight on rank 0, since the others start
    theirs behind a barrier."""
    import numpy
    import regroup
    module, beside = regroup.init(), program.set(range(program.size))
    array = numpy.ones(1 << 16)
    is_there = weakref.ref(array)
    if program.rank != 0:
        beside.barrier()
    module.world.start_allreduce(array)
    del array
    module.finalize()
    gc.collect()
    if program.rank == 0:
        assert program.size == 1 or is_there() is not None, "it is in flight"
        beside.barrier()
    program.world.barrier()
    return is_there


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
    is_there = start_and_leave(program)
    program.finalize()
    gc.collect()
    assert is_there() is None, "the last finalize gives arrays back"
    assert regroup.current() is None
    try:
        regroup.init()
        raise AssertionError("a second world was made")
    except regroup.Invalid as error:
        assert "one world" in error.sentence, error


pyjob.main(work)
