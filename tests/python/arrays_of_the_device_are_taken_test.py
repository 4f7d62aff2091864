"""Arrays with __cuda_array_interface__ are device memory: collectives go by
NCCL in the stream that one of the arrays names, and a registered one is
committed. Refused are host and device arrays in one call, arrays in different
streams, and a new result of a kind that nobody can make. On the
stand-in for CUDA and NCCL.

Covers: _buffers.py _sets.py _state.py _context.py"""
import ctypes
import os
import tempfile

import pyjob


class Device:
    """The stand-in's calls that a library of arrays would make."""

    def __init__(self):
        self.cuda = ctypes.CDLL(os.environ["REGROUP_CUDA_LIB"])

    def must(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        assert result == 0, (name, result)

    def stream(self):
        made = ctypes.c_void_p()
        self.must("cuStreamCreateWithPriority", ctypes.byref(made), 1, 0)
        return made.value

    def be_busy(self):
        """The legacy default stream has something to do for a while."""
        self.must("fake_launch", None, ctypes.CDLL(None).usleep,
                  ctypes.c_void_p(100000))

    def array(self, values, stream=None):
        return DeviceArray(self, values, stream)


class DeviceArray:
    """Doubles on the device, as cupy would show them."""

    def __init__(self, device, values, stream):
        self.device, self.n, self.stream = device, len(values), stream
        at = ctypes.c_uint64()
        device.must("cuMemAlloc_v2", ctypes.byref(at),
                    ctypes.c_size_t(8 * self.n))
        self.at = at.value
        host = (ctypes.c_double * self.n)(*values)
        device.must("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(self.at), host,
                    ctypes.c_size_t(8 * self.n), ctypes.c_void_p(stream))
        device.must("cuStreamSynchronize", ctypes.c_void_p(stream))

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.n,), "typestr": "<f8", "strides": None,
                "data": (self.at, False), "version": 3, "stream": self.stream}

    def values(self):
        host = (ctypes.c_double * self.n)()
        self.device.must("cuMemcpyDtoHAsync_v2", host,
                         ctypes.c_uint64(self.at),
                         ctypes.c_size_t(8 * self.n),
                         ctypes.c_void_p(self.stream))
        self.device.must("cuStreamSynchronize", ctypes.c_void_p(self.stream))
        return list(host)


def refused(call, kind, sentence):
    try:
        call()
    except kind as error:
        assert sentence in error.sentence, error.sentence
        return
    raise AssertionError(f"nobody said: {sentence}")


def check_collectives(ctx, device):
    import numpy
    import regroup
    world, n, me = ctx.world, ctx.size, ctx.rank
    for stream in (None, 1, device.stream()):
        sent = device.array([me + 1.0] * 5, stream)
        total = device.array([0.0] * 5, stream)
        assert world.allreduce(sent, total) is total
        assert total.values() == [n * (n + 1) / 2] * 5
        world.start_broadcast(sent, root=n - 1).wait()
        assert sent.values() == [float(n)] * 5
        every = device.array([0.0] * n, stream)
        world.allgather(device.array([float(me)], stream), every)
        assert every.values() == [float(r) for r in range(n)]
    unsaid = device.array([me + 1.0] * 5)
    out = device.array([0.0] * 5, device.stream())
    device.be_busy()
    world.start_allreduce(unsaid, out)
    assert out.values() == [n * (n + 1) / 2] * 5  # read in its stream
    ctx.device_wait()
    refused(lambda: world.allreduce(sent, numpy.zeros(5)), regroup.Invalid,
            "of the device; pass two")
    refused(lambda: world.allreduce(sent, out), regroup.Invalid,
            "in different streams")
    refused(lambda: world.allreduce(sent), regroup.Unsupported,
            "can't make another DeviceArray on the device")


def train(ctx, device):
    import regroup
    held = device.array([1.0] * 4)
    state = regroup.State(ctx)
    state.add("held", held)

    def step():
        check_collectives(ctx, device)
        for _ in range(3):
            ctx.world.allreduce(held, held, op=regroup.MAX)
            state.commit()
    state.run(step)
    assert held.values() == [1.0] * 4


def work():
    import regroup
    with regroup.init(elastic=True) as ctx:
        device = Device()
        ctx.device_open()
        train(ctx, device)
        print("all is right")


def test():
    tests = os.path.join(os.environ["REGROUP_BUILD"], "tests")
    for size in (1, 3):
        with tempfile.TemporaryDirectory(prefix="rg-py-") as folder:
            said = pyjob.job(
                size, pyjob.command(), FAKE_DEVICE=folder,
                REGROUP_CUDA_LIB=os.path.join(tests, "libfakecuda.so"),
                REGROUP_NCCL_LIB=os.path.join(tests, "libfakenccl.so"))
            assert said.count("all is right") == size, said
            assert not os.path.exists(os.path.join(folder, "violations")), said


pyjob.main(work, test=test)
