"""DLPack tensors (by a producer of the test's own) and buffers of array,
bytearray and memoryview are sent and filled like numpy arrays, also without
numpy; each result is of the kind that was sent.

Covers: _buffers.py"""
import array
import ctypes

import pyjob


class Bare:
    """Has DLPack and nothing else: float32, 2 x 3 or 0 x 3, on a device."""

    def __init__(self, values, device=(1, 0), code=2, strides=None):
        self.values = (ctypes.c_float * len(values))(*values)
        self.device, self.code, self.strides = device, code, strides

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self):
        from regroup import _buffers
        shape = (ctypes.c_int64 * 2)(len(self.values) // 3, 3)
        strides = self.strides and (ctypes.c_int64 * 2)(*self.strides)
        self.managed = _buffers._DLTensor(
            ctypes.addressof(self.values) - 8, *self.device, 2, self.code, 32,
            1, shape, strides, 8)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [
            ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


class Tensor(Bare):
    """And makes others, as torch's do."""

    def new_empty(self, shape):
        return Tensor([0] * (shape[0] * shape[1]))


def check_bare(world):
    """What can't be made again is told to need out; no row has no layout."""
    import regroup
    n, sent = world.size, Bare([1] * 6)
    try:
        world.allreduce(sent)
        raise AssertionError("a result of which kind?")
    except regroup.Unsupported as error:
        assert "pass out" in error.sentence, error
    assert list(world.allreduce(sent, out=sent).values) == [n] * 6
    none = Bare([], strides=(1, 7))
    assert world.allreduce(none, out=none) is none


def check_dlpack(world):
    import regroup
    me, n = world.rank, world.size
    ranks = n * (n - 1) / 2
    sent = Tensor([me] * 6)
    found = world.allreduce(sent)
    assert list(found.values) == [ranks] * 6 and list(sent.values) == [me] * 6
    world.allreduce(sent, out=sent)
    assert list(sent.values) == [ranks] * 6
    found = world.allgather(Tensor([me] * 6, strides=(3, 1)))
    assert list(found.values) == [r for r in range(n) for _ in range(6)]
    for wrong, words in ((Tensor([0] * 6, device=(8, 0)), "device (8, 0)"),
                         (Tensor([0] * 6, code=5), "type"),
                         (Tensor([0] * 6, strides=(1, 2)), "C order")):
        try:
            world.allreduce(wrong)
            raise AssertionError(f"taken: {words}")
        except regroup.RegroupError as error:
            assert words in error.sentence, error


def check_buffers(world):
    me, n = world.rank, world.size
    ranks = n * (n - 1) // 2
    for code in "ilqfd":
        found = world.allreduce(array.array(code, [me, 1]))
        assert found.format == code and found.tolist() == [ranks, n]
    data = bytearray(b"root" if me == n - 1 else b"????")
    assert world.broadcast(data, root=n - 1) is data and data == b"root"
    found = world.allgather(bytes([me, 7]))
    assert bytes(found) == b"".join(bytes([r, 7]) for r in range(n))
    table = memoryview(bytearray(24)).cast("i", (2, 3))
    table[1, 2] = me
    found = world.allreduce(table)
    assert found.shape == (2, 3) and found[1, 2] == ranks


def work():
    import sys
    sys.modules["numpy"] = None  # importing it fails
    import regroup
    with regroup.init() as ctx:
        check_buffers(ctx.world)
        check_dlpack(ctx.world)
        check_bare(ctx.world)


pyjob.main(work, modules=())
