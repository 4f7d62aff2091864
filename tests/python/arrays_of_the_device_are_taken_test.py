"""Arrays with __cuda_array_interface__, and those that have DLPack on a CUDA
device, are device memory: collectives go by NCCL in the stream that the call
or one of the arrays names, in which DLPack's are made ready, and a registered
one is committed. Calls that mix host and device arrays, or arrays in different
streams without naming one, are refused, and so are invalid streams and new
results of a kind that can't be made. A set of the device has its communicator
from the start, and device_info tells what was opened. On the stand-in for CUDA
and NCCL.

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


class Tensor(ctypes.Structure):
    """A DLManagedTensor of one dimension."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class DLPackArray:
    """The same doubles without that interface."""

    def __init__(self, array, device):
        self.array, self.where, self.asked = array, (2, device), []

    def __dlpack_device__(self):
        return self.where

    def __dlpack__(self, *, stream=None):
        self.asked.append(stream)
        self.shape = (ctypes.c_int64 * 1)(self.array.n)
        self.tensor = Tensor(self.array.at, *self.where, 1, 2, 64, 1,
                             self.shape)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        return make(ctypes.byref(self.tensor), b"dltensor", None)


class OfTorch:
    def __init__(self, at):
        self.cuda_stream = at


class OfProtocol:
    def __init__(self, at):
        self.at = at

    def __cuda_stream__(self):
        return 0, self.at


def refused(call, kind, sentence):
    try:
        call()
    except kind as error:
        assert sentence in error.sentence, error.sentence
        return
    raise AssertionError(f"no line says: {sentence}")


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


def check_streams(ctx, device):
    """The call's stream is used in the place of those that arrays name."""
    import numpy
    import regroup
    world, n, me = ctx.world, ctx.size, ctx.rank
    at = device.stream()
    for stream in (at, OfTorch(at), OfProtocol(at)):
        sent = device.array([me + 1.0] * 5, device.stream())
        out = device.array([0.0] * 5, at)
        device.must("fake_launch", ctypes.c_void_p(at),
                    ctypes.CDLL(None).usleep, ctypes.c_void_p(20000))
        world.start_allreduce(sent, out, stream=stream)
        assert out.values() == [n * (n + 1) / 2] * 5
    world.start_barrier(memory=regroup.DEVICE, stream=0)
    world.allreduce(sent, out, stream=regroup.STREAM_NONE)
    host = numpy.zeros(5)
    refused(lambda: world.allreduce(sent, out, stream="fast"),
            regroup.Invalid, "'fast' is no stream")
    refused(lambda: world.allreduce(host, stream=at), regroup.Invalid,
            "on host memory")
    refused(lambda: world.allreduce(sent, out, memory=regroup.HOST),
            regroup.Invalid, "leave memory out")
    refused(lambda: world.allreduce(host, memory=regroup.DEVICE),
            regroup.Invalid, "not memory of the device")


def check_dlpack(ctx, device):
    import regroup
    n, me, at = ctx.size, ctx.rank, device.stream()
    mine = ctx.device_info().device
    sent = DLPackArray(device.array([me + 1.0] * 5), mine)
    out = DLPackArray(device.array([0.0] * 5, at), mine)
    assert ctx.world.allreduce(sent, out, stream=at) is out
    assert out.array.values() == [n * (n + 1) / 2] * 5
    assert sent.asked == out.asked == [regroup.STREAM_NONE, at], sent.asked
    ctx.world.broadcast(sent)
    assert sent.array.values() == [1.0] * 5 and sent.asked[-1] == 1
    other = DLPackArray(sent.array, 0)
    other.where = 8, 0
    refused(lambda: ctx.world.broadcast(other), regroup.Unsupported,
            "neither the host's nor a CUDA device's")


def comms(device):
    held = (ctypes.c_int * 16)()
    device.cuda.fake_held(held)
    return held[0]


def check_sets(ctx, device):
    import regroup
    before = comms(device)
    ranks = list(range(ctx.size))
    made = ctx.set(ranks, "plain")
    assert comms(device) == before
    made = ctx.set(ranks, "gpu", memory=regroup.DEVICE)
    ctx.set_by(lambda: 0, "rule", memory=regroup.DEVICE)
    ctx.split(0, memory=regroup.DEVICE)
    assert comms(device) == before + (6 if ctx.size > 1 else 0)
    made.broadcast(device.array([1.0]))


def check_info(ctx):
    info = ctx.device_info()
    assert info.device == ctx.slot and info.nccl == 22809, info
    assert info.driver == 13000 and info.bus.startswith("0000:"), info
    assert 0 < info.free_bytes <= info.total_bytes and info.name, info


def train(ctx, device):
    import regroup
    held = device.array([1.0] * 4)
    state = regroup.State(ctx)
    state.add("held", held)
    state.add("packed", DLPackArray(device.array([2.0] * 4),
                                    ctx.device_info().device))

    def step():
        check_info(ctx)
        check_collectives(ctx, device)
        check_streams(ctx, device)
        check_dlpack(ctx, device)
        check_sets(ctx, device)
        for _ in range(3):
            ctx.world.allreduce(held, held, op=regroup.MAX)
            state.commit()
    state.run(step)
    assert held.values() == [1.0] * 4


def work():
    import regroup
    with regroup.init(elastic=True) as ctx:
        device = Device()
        refused(ctx.device_info, regroup.Invalid, "device_open")
        refused(lambda: ctx.device_open(in_flight=5000), regroup.Invalid,
                "in_flight is at most 1024")
        ctx.device_open(max_ctas=2, init_timeout=20, in_flight=32)
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
