"""Arrays as the C side sees them: an address, a count and a type.

Accepted are numpy arrays, tensors of torch, other objects with DLPack, and
objects with the buffer protocol (array.array, bytearray, memoryview). They are
borrowed: a Buffer holds its array.

An array with __cuda_array_interface__ (cupy and numba arrays, torch tensors on
a GPU), or DLPack on a CUDA device, is memory of the device, used in the order
of a stream: the one that the caller names, else that any of an operation's
arrays names, for torch the current one, else the legacy default stream.
DLPack's owners are asked to have theirs ready in it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import sys
import typing
from ctypes import (POINTER, c_char_p, c_int, c_int32, c_int64, c_ssize_t,
                    c_uint8, c_uint16, c_uint64, c_void_p, py_object)

from ._abi import Memory, Type, lib
from ._errors import Invalid, Unsupported

Array = typing.Any
Shape = tuple[int, ...]

# (kind as numpy has it, bytes of an element)
_TYPES = {("u", 1): Type.U8, ("i", 4): Type.I32, ("i", 8): Type.I64,
          ("f", 4): Type.F32, ("f", 8): Type.F64, ("i", 1): Type.I8,
          ("u", 4): Type.U32, ("u", 8): Type.U64, ("f", 2): Type.F16,
          ("bf", 2): Type.BF16, ("b", 1): Type.BOOL,
          ("f4i4", 8): Type.F32_I32, ("f8i4", 16): Type.F64_I32,
          ("i4i4", 8): Type.I32_I32, ("i8i4", 16): Type.I64_I32,
          ("f4f4", 8): Type.F32_F32, ("f8f8", 16): Type.F64_F64}
_FORMATS = {"b": "i", "h": "i", "i": "i", "l": "i", "q": "i", "n": "i",
            "B": "u", "H": "u", "I": "u", "L": "u", "Q": "u", "N": "u",
            "c": "u", "e": "f", "f": "f", "d": "f", "?": "b"}
_NATIVE = "@=<" if sys.byteorder == "little" else "@=>"


@dataclasses.dataclass(slots=True)
class Buffer:
    """What a collective needs to know about an array."""

    what: str  # the call that got it
    array: Array
    address: int
    shape: Shape
    item: int  # bytes of an element
    type: Type
    is_writable: bool
    hold: object  # keeps the memory in place
    memory: Memory = Memory.HOST
    stream: int | None = None  # of device memory
    make_ready: typing.Callable[[int], object] | None = None  # in a stream

    @property
    def count(self) -> int:
        """Elements in all."""
        return math.prod(self.shape)

    @property
    def row(self) -> int:
        """Elements of one entry of the first dimension."""
        return math.prod(self.shape[1:])

    def new(self, shape: Shape) -> Array:
        """A new array of this one's kind and type, its contents undefined."""
        if hasattr(self.array, "new_empty"):  # a torch tensor
            return self.array.new_empty(shape)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(self.array, numpy.ndarray):
            return numpy.empty(shape, self.array.dtype)
        if self.memory == Memory.DEVICE:
            return self._new_on_device(shape)
        whole = memoryview(bytearray(math.prod(shape) * self.item))
        try:
            plain: typing.Any = memoryview(self.array).format.lstrip("@=<>")
            return whole.cast(plain) if len(shape) == 1 or 0 in shape \
                else whole.cast(plain, shape)
        except (TypeError, ValueError):  # DLPack alone, or such as halves
            raise Unsupported(
                f"{self.what} can't make another {type(self.array).__name__} "
                f"of {self.type.name} for its result; pass out") from None

    def _new_on_device(self, shape: Shape) -> Array:
        cupy = sys.modules.get("cupy")
        if cupy is not None and isinstance(self.array, cupy.ndarray):
            return cupy.empty(shape, self.array.dtype)
        raise Unsupported(
            f"{self.what} can't make another {type(self.array).__name__} on "
            "the device for its result; pass out")


def _type_of(what: str, kind: str, item: int, name: object) -> Type:
    if (kind, item) not in _TYPES:
        raise Unsupported(
            f"{what} got an array of {name}, a type that Regroup does not "
            f"have; convert it to one of {', '.join(t.name for t in Type)}")
    return _TYPES[kind, item]


def _refuse_layout(what: str) -> typing.NoReturn:
    raise Invalid(f"{what} got an array whose elements do not lie one behind "
                  "the other in C order; pass numpy.ascontiguousarray(it), or "
                  "it.contiguous() of a tensor")


# ---------------------------------------------------------------- numpy

def _pair_of(dtype: typing.Any) -> str:
    """A value and an index right behind it: what MINLOC and MAXLOC take."""
    fields = [dtype.fields[name] for name in dtype.names]
    if len(fields) != 2 or fields[1][1] != fields[0][0].itemsize:
        return "V"
    return "".join(field[0].str[1:] for field in fields)


def _of_numpy(what: str, array: Array) -> Buffer:
    dtype = array.dtype
    if hasattr(array, "mask"):
        raise Invalid(f"{what} got a masked array, and would take what is "
                      "masked as well; pass it.filled(value)")
    if not array.flags.c_contiguous:
        _refuse_layout(what)
    if not dtype.isnative:
        raise Invalid(f"{what} got an array of {dtype}, whose bytes are in "
                      "the other order; convert it with astype")
    kind = dtype.kind
    if dtype.names is not None:
        kind = _pair_of(dtype)
    if kind == "V" and dtype.name == "bfloat16":  # of ml_dtypes
        kind = "bf"
    return Buffer(what, array, array.__array_interface__["data"][0],
                  array.shape, dtype.itemsize,
                  _type_of(what, kind, dtype.itemsize, dtype),
                  array.flags.writeable, array)


# ---------------------------------------------------------------- torch

@functools.cache
def torch_types() -> dict[typing.Any, tuple[Type, int]]:
    """Torch's types that Regroup has: the type, and bytes of an element."""
    torch = sys.modules["torch"]
    names = {"uint8": Type.U8, "int32": Type.I32, "int64": Type.I64,
             "float32": Type.F32, "float64": Type.F64, "int8": Type.I8,
             "uint32": Type.U32, "uint64": Type.U64, "float16": Type.F16,
             "bfloat16": Type.BF16, "bool": Type.BOOL}
    return {getattr(torch, name): (kind, lib.rg_type_size(kind))
            for name, kind in names.items() if hasattr(torch, name)}


def _of_torch(what: str, tensor: Array) -> Buffer:
    """A tensor's memory, whatever autograd knows of it: as torch.distributed
    does, no gradient is taken through a collective."""
    if tensor.layout != sys.modules["torch"].strided:
        raise Unsupported(f"{what} got a tensor whose layout is "
                          f"{tensor.layout}; pass it.to_dense()")
    if tensor.device.type != "cpu":
        raise Unsupported(f"{what} got a tensor on {tensor.device}, whose "
                          "memory Regroup can't use; pass it.cpu()")
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        _refuse_layout(what)
    kind, item = torch_types().get(tensor.dtype) or \
        (_type_of(what, "?", 0, tensor.dtype), 0)
    return Buffer(what, tensor, tensor.data_ptr(), tuple(tensor.shape), item,
                  kind, True, tensor.detach())


# --------------------------------------------------------------- DLPack

class _DLTensor(ctypes.Structure):
    """The head of a DLManagedTensor; its layout is DLPack's."""

    _fields_ = [("data", c_void_p), ("device_type", c_int),
                ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


_DL_CPU, _DL_CUDA, _DL_CUDA_MANAGED = 1, 2, 13
_DL_KINDS = {0: "i", 1: "u", 2: "f", 4: "bf", 6: "b"}
_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


def _of_dlpack(what: str, array: Array) -> Buffer:
    device = array.__dlpack_device__()
    is_cuda = device[0] in (_DL_CUDA, _DL_CUDA_MANAGED)
    if device[0] != _DL_CPU and not is_cuda:
        raise Unsupported(
            f"{what} got a tensor in the memory of device {device}, which is "
            "neither the host's nor a CUDA device's; pass it.cpu()")
    capsule = array.__dlpack__(stream=STREAM_NONE) if is_cuda \
        else array.__dlpack__()
    tensor = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tensor.strides[:tensor.ndim] if tensor.strides else None
    if not _is_c_order(shape, strides, 1):
        _refuse_layout(what)
    kind, item = _DL_KINDS.get(tensor.code, "?"), tensor.bits // 8
    return Buffer(what, array, (tensor.data or 0) + tensor.byte_offset, shape,
                  item,
                  _type_of(what, kind, item, getattr(array, "dtype", kind)),
                  True, (array, capsule),
                  Memory.DEVICE if is_cuda else Memory.HOST, None,
                  (lambda into: array.__dlpack__(stream=into)) if is_cuda
                  else None)


# ------------------------------------------------ memory of a CUDA device

#: One of cupy, numba, torch or cuda.core, or the address of a cudaStream_t.
Stream = typing.Any
LEGACY_STREAM = 1  # as __cuda_array_interface__ has it; torch has 0
STREAM_NONE = -1  # the arrays' contents are ready now


def stream_of(stream: Stream) -> int | None:
    """The address of a stream that a caller has named; None: of none."""
    if stream is None:
        return None
    address = stream
    if hasattr(stream, "__cuda_stream__"):
        address = stream.__cuda_stream__()[1]
    for name in ("cuda_stream", "ptr", "handle"):  # torch, cupy, numba
        if address is stream and hasattr(stream, name):
            address = getattr(stream, name)
            address = getattr(address, "value", address)  # of ctypes
    if address is not None and not isinstance(address, int):
        raise Invalid(f"{stream!r:.40} is no stream; pass one of torch, cupy "
                      "or numba, the address of a cudaStream_t, or "
                      "STREAM_NONE")
    return address or LEGACY_STREAM


def _stream_of(array: Array, named: int | None) -> int | None:
    """The stream of the array's work; None: it does not say."""
    torch = sys.modules.get("torch")
    if named is None and torch is not None and \
            isinstance(array, torch.Tensor):
        return torch.cuda.current_stream(array.device).cuda_stream or \
            LEGACY_STREAM
    return named


def _is_c_order(shape: Shape, strides: typing.Sequence[int] | None,
                step: int) -> bool:
    expected = step
    for length, stride in zip(reversed(shape), reversed(strides or ())):
        if length > 1 and 0 not in shape and stride != expected:
            return False
        expected *= length
    return True


def _of_device(what: str, array: Array, face: dict) -> Buffer:
    order, kind, item = (face["typestr"][0], face["typestr"][1],
                         int(face["typestr"][2:]))
    shape = tuple(face["shape"])
    if face.get("mask") is not None:
        raise Invalid(f"{what} got a masked array of the device")
    if order not in ("|", _NATIVE[-1]) and item > 1:
        raise Invalid(f"{what} got an array whose bytes are in the other "
                      "order")
    if not _is_c_order(shape, face.get("strides"), item):
        _refuse_layout(what)
    if getattr(array, "dtype", None) is not None and \
            str(array.dtype).endswith("bfloat16"):
        kind = "bf"
    address, is_read_only = face["data"]
    return Buffer(what, array, address, shape, item,
                  _type_of(what, kind, item, face["typestr"]),
                  not is_read_only, array, Memory.DEVICE,
                  _stream_of(array, face.get("stream")))


# ------------------------------------------------------ buffer protocol

class _PyBuffer(ctypes.Structure):
    """Py_buffer, as the stable ABI lays it out."""

    _fields_ = [("buf", c_void_p), ("obj", c_void_p), ("len", c_ssize_t),
                ("itemsize", c_ssize_t), ("readonly", c_int),
                ("ndim", c_int), ("format", c_char_p), ("shape", c_void_p),
                ("strides", c_void_p), ("suboffsets", c_void_p),
                ("internal", c_void_p)]


def _address(view: memoryview) -> int:
    found = _PyBuffer()
    ctypes.pythonapi.PyObject_GetBuffer(py_object(view), ctypes.byref(found),
                                        0)
    address = found.buf
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(found))
    return address or 0


def _of_view(what: str, array: Array, view: memoryview) -> Buffer:
    if not view.c_contiguous:
        _refuse_layout(what)
    order, plain = view.format[:-1], view.format[-1:]
    if order not in ("", *_NATIVE) or plain not in _FORMATS:
        raise Unsupported(f"{what} got a buffer of format {view.format!r}, "
                          "which Regroup does not have")
    return Buffer(what, array, _address(view), view.shape or (), view.itemsize,
                  _type_of(what, _FORMATS[plain], view.itemsize,
                           f"format {view.format!r}"),
                  not view.readonly, view)


# ------------------------------------------------------------- all kinds

def look(what: str, array: Array) -> Buffer:
    """The Buffer of an array that the call `what` got."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(array, numpy.ndarray):
        return _of_numpy(what, array)
    if isinstance(array, (int, float, complex)) or \
            (numpy is not None and isinstance(array, numpy.generic)):
        raise Invalid(f"{what} got the scalar {array!r}; pass an array of one "
                      f"element, such as numpy.array([{array!r}])")
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(array, torch.Tensor)
    if is_tensor and array.device.type != "cuda":
        return _of_torch(what, array)
    face = getattr(array.detach() if is_tensor else array,
                   "__cuda_array_interface__", None)
    if face is not None:
        return _of_device(what, array, face)
    if hasattr(array, "__dlpack__"):
        return _of_dlpack(what, array)
    try:
        view = memoryview(array)
    except TypeError:
        raise Invalid(
            f"{what} got {type(array).__name__} {array!r:.40}; pass a numpy "
            "array, a tensor, or something else that has DLPack or the buffer "
            "protocol") from None
    return _of_view(what, array, view)


def look_writable(what: str, array: Array) -> Buffer:
    """The same of an array that the call writes into."""
    found = look(what, array)
    if not found.is_writable:
        raise Invalid(f"{what} writes its result into a read-only array; pass "
                      "one that can be written")
    return found


def need_rows(what: str, found: Buffer) -> Buffer:
    """The same Buffer, refused when it has no first dimension."""
    if not found.shape:
        raise Invalid(f"{what} goes by the first dimension, and got a scalar "
                      "array; pass an array of one element")
    return found
