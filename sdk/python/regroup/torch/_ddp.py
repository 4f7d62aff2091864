"""DDP's reducer over the backend "regroup": its buckets are memory that
collectives read in place between the workers of one host.

DDP makes them with aten::empty while its reducer is made, and again behind the
first step. A dispatch mode sees those calls and answers with memory of its own,
which is registered, so children of fork may use it as any other, and which
lives as long as a tensor uses it. Where it can't be registered, on one rank or
on all, a bucket is what it would have been, and is copied.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import typing
import weakref

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from .._abi import Status, lib
from .._context import Context
from ._group import ProcessGroup

_LEAST = 65536  # rg_register leaves smaller ones where they are


def _give_back(context: Context, address: int) -> None:
    if context.is_open:
        lib.rg_unregister(context.handle, address)


def _registered(context: Context, bytes_: int) -> typing.Any | None:
    """Registered memory; its pages go behind its registration."""
    try:
        pages = mmap.mmap(-1, bytes_, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError:
        return None
    memory = (ctypes.c_char * bytes_).from_buffer(pages)
    address = ctypes.addressof(memory)
    if lib.rg_register(context.handle, address, bytes_) != Status.OK:
        return None
    weakref.finalize(memory, _give_back, context, address).atexit = False
    return memory


class _Buckets(TorchDispatchMode):
    """While it is entered, large tensors of the host are registered memory."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self._context = context

    def _made(self, shape: typing.Sequence[int], dtype: torch.dtype
              ) -> torch.Tensor | None:
        count = math.prod(shape)
        bytes_ = count * torch.empty(0, dtype=dtype).element_size()
        if bytes_ < _LEAST:
            return None
        memory = _registered(self._context, bytes_)
        return None if memory is None else torch.frombuffer(
            memory, dtype=dtype, count=count).view(shape)

    def __torch_dispatch__(self, func: typing.Any, types: typing.Any,
                           args: typing.Any = (), kwargs: typing.Any = None
                           ) -> typing.Any:
        options = kwargs or {}
        if func is torch.ops.aten.empty.memory_format and \
                options.get("device", torch.device("cpu")).type == "cpu":
            made = self._made(args[0], options.get("dtype")
                              or torch.get_default_dtype())
            if made is not None:
                return made
        return func(*args, **options)


class Reducer(dist.Reducer):
    """DDP's, which is known here: torch 2 may keep it for a while after the
    function has been left, and it would answer to the gradients of a model
    that the next DDP has."""

    living: typing.ClassVar[weakref.WeakSet] = weakref.WeakSet()

    def __init__(self, *arguments: typing.Any, **named: typing.Any) -> None:
        groups = [one for one in (*arguments, *named.values())
                  if isinstance(one, ProcessGroup)]
        self._context = groups[0].members.context if groups else None
        self._make(super().__init__, *arguments, **named)
        self._work: typing.Any = None
        self.living.add(self)

    def _make(self, make: typing.Callable, *arguments: typing.Any,
              **named: typing.Any) -> typing.Any:
        if self._context is None:
            return make(*arguments, **named)
        with _Buckets(self._context):
            return make(*arguments, **named)

    def _rebuild_buckets(self) -> bool:
        return self._make(super()._rebuild_buckets)

    def _set_forward_pass_work_handle(self, work: typing.Any,
                                      is_static: bool) -> None:
        """Under DDP's join: how many ranks still have data. C++ waits for it
        and then asks for its future, for which it must still be an object of
        Python (ProcessGroup)."""
        self._work = work
        super()._set_forward_pass_work_handle(work, is_static)

    @classmethod
    def leave(cls) -> None:
        """Those of a function that has been left answer no more."""
        for reducer in list(cls.living):
            if hasattr(reducer, "_remove_autograd_hooks"):
                reducer._remove_autograd_hooks()
        cls.living.clear()
