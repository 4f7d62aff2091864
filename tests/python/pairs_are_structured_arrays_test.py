"""MINLOC and MAXLOC take structured arrays of numpy, a value and an index; one
that is laid out otherwise is refused.

Covers: _buffers.py"""
import pyjob


def check_type(world, value):
    import numpy
    import regroup
    kind = numpy.dtype([("v", value), ("i", "i4")], align=True)
    mine = numpy.zeros(3, kind)
    mine["v"] = [world.rank, 5, -world.rank]
    mine["i"] = 10 + world.rank
    last = world.size - 1
    least = world.allreduce(mine, op=regroup.MINLOC)
    assert least["v"].tolist() == [0, 5, -last], least
    assert least["i"].tolist() == [10, 10, 10 + last], least
    most = world.allreduce(mine, op=regroup.MAXLOC)
    assert most["i"].tolist() == [10 + last, 10, 10], most


def work():
    import numpy
    import regroup
    world = regroup.init().world
    for value in "f4", "f8", "i4", "i8":
        check_type(world, value)
    other = numpy.dtype([("i", "i4"), ("v", "f8")], align=True)
    try:
        world.allreduce(numpy.zeros(3, other), op=regroup.MINLOC)
        raise AssertionError("an index before its value was taken")
    except regroup.Unsupported:
        pass


pyjob.main(work)
