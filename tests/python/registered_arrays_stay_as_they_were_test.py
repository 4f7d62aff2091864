"""Context.register keeps what is in an array, where it is, and the array itself,
until close or finalize; tensors of torch, too.

Covers: _context.py registered.c"""
import gc
import importlib.util
import weakref

import pyjob

ELEMENTS = 100_003


def is_shared(address):
    with open("/proc/self/maps") as maps:
        areas = [line.split() for line in maps]
    page = (address + 4095) // 4096 * 4096
    return any(int(begin, 16) <= page < int(end, 16) and area[1][3] == "s"
               for area in areas for begin, end in [area[0].split("-")])


def check_array(ctx, data, address):
    data[:] = 3
    moves = ctx.size > 1
    assert not is_shared(address)
    with ctx.register(data) as inside:
        assert inside is data and (data == 3).all()
        assert is_shared(address) == moves
        ctx.world.allreduce(data, out=data)
        ctx.world.allreduce(data[1:], out=data[1:])
        assert data[0] == 3 * ctx.size, data[0]
        assert (data[1:] == 3 * ctx.size * ctx.size).all()
    assert not is_shared(address)
    assert (data[1:] == 3 * ctx.size * ctx.size).all()


def check_mistakes(ctx):
    import numpy
    import regroup
    data = numpy.zeros(ELEMENTS)
    held = ctx.register(data)
    for wrong, word in ((data, "registered already"),
                        (data[7:], "registered already"),
                        (numpy.zeros((9, 9))[:, 1], "contiguous"),
                        (bytes(ELEMENTS), "read-only")):
        try:
            ctx.register(wrong)
            raise AssertionError(f"{word}: taken")
        except regroup.Invalid as error:
            assert word in str(error), str(error)
    held.close()
    held.close()


def work():
    import numpy
    import regroup
    with regroup.init() as ctx:
        data = numpy.empty(ELEMENTS, "f8")
        check_array(ctx, data, data.ctypes.data)
        if importlib.util.find_spec("torch") is not None:
            import torch
            tensor = torch.empty(ELEMENTS)
            check_array(ctx, tensor, tensor.data_ptr())
        check_mistakes(ctx)
        ctx.register(data)
        is_there = weakref.ref(data)
        address = data.ctypes.data
        data[:] = 5
        del data
        gc.collect()
        assert is_there() is not None, "a registered array is gone"
        kept = is_there()
    assert not is_shared(address) and (kept == 5).all()
    del kept
    gc.collect()
    assert is_there() is None, "finalize does not give arrays back"


pyjob.main(work, sizes=(1, 2))
