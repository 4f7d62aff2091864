"""Gradients that are averaged while others are still computed (rg_reducer).

The tensors live in memory of the library, so that nothing is copied. It is
given back when neither a Reducer nor an array of one of its tensors uses it.
"""

from __future__ import annotations

import ctypes
import math
import typing
from ctypes import c_int, c_uint64, c_void_p

from ._abi import (Compression, ReducerInfo, ReducerParams, Type, lib)
from ._buffers import Array
from ._context import Block
from ._errors import Invalid, check
from ._numbers import integer, text
from ._sets import Set
from ._wait import call_waiting

_TYPES = {"float16": Type.F16, "bfloat16": Type.BF16, "float32": Type.F32,
          "float64": Type.F64}
_COMPRESSIONS = {None: Compression.NONE, "f16": Compression.F16,
                 "bf16": Compression.BF16, "top_k": Compression.TOP_K}


class ReducerCounts(typing.NamedTuple):
    """What a reducer has done so far."""

    tensors: int
    buckets: int
    steps: int  # that have ended well
    plans: int  # that were made, and were another order than before


class _Held:
    """An rg_reducer."""

    def __init__(self, address: int) -> None:
        self.address = address


def _compression(name: str | None) -> Compression:
    if name not in _COMPRESSIONS:
        raise Invalid(f"compression is {name!r}; give one of None, 'f16', "
                      "'bf16' and 'top_k'")
    return _COMPRESSIONS[name]


class Reducer:
    """The gradients of a training step, averaged over a set while backward is
    still running.

        reducer = regroup.Reducer(ctx.world)
        for name, shape in ...:
            reducer.add(name, shape, "float32")
        gradients = [reducer.tensor(i) for i in ...]
        ...
        reducer.start_step()
        for i in ...:                   # in any order, from any thread
            gradients[i][...] = ...
            reducer.ready(i)
        reducer.finish()                # gradients are the averages

    Options are those of rg_reducer_params: sum (instead of an average),
    may_miss, bucket_bytes, scale, error_feedback, top_k, adasum,
    deterministic; and compression: None, "f16", "bf16" or "top_k". They and
    the tensors are equal on all members. It may be made before run, and lives
    through generations; as long as it or an array of `tensor` does, its set
    can't be destroyed.
    """

    def __init__(self, members: Set, *, compression: str | None = None,
                 bucket_bytes: int = 0, **options: typing.Any) -> None:
        names = {name for name, *_ in ReducerParams._fields_}
        if not options.keys() <= names - {"size"}:
            raise TypeError("Reducer got an option that it does not have: "
                            + ", ".join(sorted(options.keys() - names)))
        found = c_void_p()
        check(lib.rg_reducer_create(members.handle, ReducerParams(
            compression=_compression(compression),
            bucket_bytes=integer("bucket_bytes", c_uint64, bucket_bytes),
            **options), ctypes.byref(found)))
        self._context = members.context
        self._held = _Held(typing.cast(int, found.value))
        self._kinds: list[tuple[tuple[int, ...], str]] = []
        self._context.lend(self._held, lib.rg_reducer_destroy, found.value)

    @property
    def _handle(self) -> int:
        self._context.need_open()
        return self._held.address

    def add(self, name: str, shape: typing.Sequence[int], dtype: object, *,
            compression: str | None = None) -> int:
        """Add a tensor of float16, bfloat16, float32 or float64, before the
        first step; its number. compression: one of its own."""
        kind = str(getattr(dtype, "name", getattr(dtype, "__name__", dtype))) \
            .removeprefix("torch.")
        if kind not in _TYPES:
            raise Invalid(f"tensor {name!r} is of {dtype}; a reducer takes "
                          f"{', '.join(_TYPES)}")
        sizes = tuple(integer("a size of the shape", c_int, n) for n in shape)
        index = c_int()
        check(lib.rg_reducer_add(
            self._handle, text("a tensor's name", name), None,
            math.prod(sizes), _TYPES[kind], ctypes.byref(index)))
        if compression is not None:
            check(lib.rg_reducer_compress(self._handle, index,
                                          _compression(compression)))
        self._kinds.append((sizes, kind))
        return index.value

    def tensor(self, index: int) -> Array:
        """The numpy array that is a tensor: zeros at first. Call it after all
        were added. One of bfloat16 is an array of int16, its bits."""
        import numpy  # pylint: disable=import-outside-toplevel
        found = c_void_p()
        check(lib.rg_reducer_tensor(
            self._handle, integer("a tensor's number", c_int, index),
            ctypes.byref(found)))
        shape, kind = self._kinds[index]
        bytes_ = math.prod(shape) * lib.rg_type_size(_TYPES[kind])
        block = Block(typing.cast(int, found.value), bytes_, self._held)
        return numpy.asarray(block).view(
            "int16" if kind == "bfloat16" else kind).reshape(shape)

    def start_step(self) -> None:
        """Begin a step. In the first one of a generation ranks compare their
        tensors: Mismatch names the first difference."""
        call_waiting(lib.rg_reducer_start_step, self._handle)

    def ready(self, index: int) -> None:
        """A tensor has its values: from any thread, in any order. Then it
        belongs to the reducer until finish."""
        check(lib.rg_reducer_ready(self._handle, index))

    def finish(self) -> None:
        """Wait until all are reduced. The step is over, also with an error."""
        call_waiting(lib.rg_reducer_finish, self._handle)

    def counts(self) -> ReducerCounts:
        """What it has done so far."""
        info = ReducerInfo()
        check(lib.rg_reducer_info_get(self._handle, ctypes.byref(info)))
        return ReducerCounts(info.tensors, info.buckets, info.steps,
                             info.plans)
