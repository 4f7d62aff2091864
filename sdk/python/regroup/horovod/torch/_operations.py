"""Operations, by Horovod's names: blocking, asynchronous, in place, grouped.

Names that are not given are counted, so that unnamed operations match in the
order of their calls.
"""

from __future__ import annotations

import functools
import itertools
import typing

import torch

from ..._abi import Op
from ..._errors import Invalid, Unsupported
from ..._sets import Set
from ..._wait import Request
from ...torch import _functions as plain
from ...torch._group import as_moved, dense, returned
from .._basics import (OPS, Adasum, Average, Max, Min, ProcessSet, Product, Sum,
                       global_process_set, named_op)
from .._queue import Started, handles

Tensor = torch.Tensor
Tensors = typing.Sequence[Tensor]


# ------------------------------------------------------------ compression

class Compressor:
    """How a tensor travels."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, typing.Any]:
        """The tensor to send, and what decompress needs."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Tensor, ctx: typing.Any) -> Tensor:
        """The other way."""
        del ctx
        return tensor


class _Half(Compressor):
    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, typing.Any]:
        return (tensor.half() if tensor.is_floating_point() else tensor,
                tensor.dtype)

    @staticmethod
    def decompress(tensor: Tensor, ctx: typing.Any) -> Tensor:
        return tensor.to(ctx)


class Compression:
    """The ways that there are."""

    none = Compressor
    fp16 = _Half


# ---------------------------------------------------------------- handles

_numbers = itertools.count()


def _start(kind: str, name: str | None, members: ProcessSet,
           start: typing.Callable[[], Started]) -> int:
    queue = members.queue
    handle = next(_numbers)
    handles[handle] = queue, queue.add(
        f"{kind}.{name or queue.name_of(kind)}", start)
    return handle


def poll(handle: int) -> bool:
    """Whether synchronize would return at once; it may wait until the other
    ranks poll or wait, too."""
    if handle not in handles:
        raise ValueError(f"handle {handle} is not there, or was waited for")
    queue, operation = handles[handle]
    return queue.poll(operation)


def synchronize(handle: int) -> typing.Any:
    """Wait for an operation; its result. None: it was waited for."""
    if handle not in handles:
        return None
    queue, operation = handles.pop(handle)
    queue.need(operation)
    return operation.result()


def _waits(start: typing.Callable[..., int]
           ) -> typing.Callable[..., typing.Any]:
    """The same operation without _async in its name, which waits."""
    @functools.wraps(start)
    def call(*arguments: typing.Any, **named: typing.Any) -> typing.Any:
        return synchronize(start(*arguments, **named))
    call.__name__ = call.__qualname__ = start.__name__.replace("_async", "")
    return call


def _op(average: bool | None, op: str | None) -> Op:
    found = named_op(average, op)
    if found == Adasum:
        raise Unsupported("Adasum is for allreduce and DistributedOptimizer; "
                          "use Average here")
    return OPS[found]


# -------------------------------------------------------------- allreduce

def _start_sum(members: Set, tensors: Tensors, average: bool | None,
               op: str | None, prescale: float, postscale: float
               ) -> typing.Sequence[Request]:
    """In place. Adasum runs to its end."""
    if op != Adasum or average is not None:
        return [members.start_grouped_allreduce(
            tensors, tensors, op=_op(average, op), prescale=prescale,
            postscale=postscale)]
    for one in tensors:
        members.adasum(one, one).mul_(prescale * postscale)
    return []


def _reduced(kind: str, tensors: Tensors, outputs: Tensors | None,
             name: str | None, average: bool | None, op: str | None,
             prescale: float, postscale: float, members: ProcessSet,
             compression: typing.Any = Compression.none, is_one: bool = True
             ) -> int:
    """The results are new tensors, or in outputs."""
    if op != Adasum or average is not None:
        _op(average, op)  # or it is wrong already

    def start() -> Started:
        sent = [compression.compress(one.detach()) for one in tensors]
        used = [dense(one) if outputs is not None and one.data_ptr() ==
                own.data_ptr() else dense(one).clone()
                for (one, _), own in zip(sent, tensors)]
        requests = _start_sum(members.members, used, average, op, prescale,
                              postscale)

        def finish() -> typing.Any:
            for request in requests:
                request.wait()
            made = [compression.decompress(one, ctx).view(own.shape)
                    for one, (_, ctx), own in zip(used, sent, tensors)]
            if outputs is not None:
                for output, one in zip(outputs, made):
                    for to, source in returned(output, one):
                        to.detach().copy_(source)
                made = list(outputs)
            return made[0] if is_one else made
        return Started(requests, finish)
    return _start(kind, name, members, start)


def _starts_one(is_in_place: bool) -> typing.Callable[..., int]:
    def start(tensor: Tensor, average: bool | None = None,
              name: str | None = None, op: str | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> int:
        """Start a reduction, in place or into a new tensor."""
        return _reduced("allreduce", [tensor],
                        [tensor] if is_in_place else None, name, average, op,
                        prescale_factor, postscale_factor, process_set)
    return start


def _starts_several(is_in_place: bool) -> typing.Callable[..., int]:
    def start(tensors: Tensors, average: bool | None = None,
              name: str | None = None, op: str | None = None,
              prescale_factor: float = 1.0, postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> int:
        """The same of several tensors."""
        return _reduced("grouped_allreduce", tensors,
                        tensors if is_in_place else None, name, average, op,
                        prescale_factor, postscale_factor, process_set,
                        is_one=False)
    return start


allreduce_async, allreduce_async_ = _starts_one(False), _starts_one(True)
grouped_allreduce_async = _starts_several(False)
grouped_allreduce_async_ = _starts_several(True)
allreduce_ = _waits(allreduce_async_)
grouped_allreduce_ = _waits(grouped_allreduce_async_)


def _reduces(tensor: Tensor, compression: typing.Any, op: Op, prescale: float,
             postscale: float, members: ProcessSet
             ) -> typing.Callable[[], Tensor]:
    """A reduction that autograd goes through."""
    def call() -> Tensor:
        sent, ctx = compression.compress(tensor)
        return compression.decompress(plain.allreduce(
            sent, op=op, members=members.members, prescale=prescale,
            postscale=postscale), ctx)
    return call


def allreduce(tensor: Tensor, average: bool | None = None,
              name: str | None = None,
              compression: typing.Any = Compression.none,
              op: str | None = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0,
              process_set: ProcessSet = global_process_set) -> Tensor:
    """Reduce into a new tensor; autograd goes through it, but for Adasum."""
    if op == Adasum or not tensor.requires_grad:
        return synchronize(_reduced(
            "allreduce", [tensor], None, name, average, op, prescale_factor,
            postscale_factor, process_set, compression))
    return synchronize(_simple(
        "allreduce", name, process_set, _reduces(
            tensor, compression, _op(average, op), prescale_factor,
            postscale_factor, process_set)))


def grouped_allreduce(tensors: Tensors, average: bool | None = None,
                      name: str | None = None,
                      compression: typing.Any = Compression.none,
                      op: str | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0,
                      process_set: ProcessSet = global_process_set
                      ) -> list[Tensor]:
    """Reduce several tensors into new ones; autograd goes through it, but for
    Adasum."""
    if op == Adasum or not any(one.requires_grad for one in tensors):
        return synchronize(_reduced(
            "grouped_allreduce", tensors, None, name, average, op,
            prescale_factor, postscale_factor, process_set, compression,
            False))
    calls = [_reduces(one, compression, _op(average, op), prescale_factor,
                      postscale_factor, process_set) for one in tensors]
    return synchronize(_simple("grouped_allreduce", name, process_set,
                               lambda: [call() for call in calls]))


def sparse_allreduce_async(tensor: Tensor, name: str, op: str,
                           process_set: ProcessSet = global_process_set
                           ) -> typing.Callable[[], Tensor]:
    """Start the sum or average of sparse tensors; call the result for it."""
    kind = _op(None, op)
    if kind not in (Op.SUM, Op.AVG):
        raise Invalid("sparse tensors are added or averaged only")
    coalesced = tensor.coalesce()
    indices = allgather_async(coalesced._indices().t().contiguous(),
                              f"{name}.indices", process_set)
    values = allgather_async(coalesced._values(), f"{name}.values",
                             process_set)

    def wait() -> Tensor:
        places, found = synchronize(indices), synchronize(values)
        if kind == Op.AVG:
            found = found / process_set.size()
        return torch.sparse_coo_tensor(places.t(), found,
                                       tensor.size()).coalesce()
    return wait


# ----------------------------------------------------- moving and scattering

def _scaled(tensor: Tensor, members: ProcessSet, is_mean: bool) -> Tensor:
    """The tensor; its gradient is divided by the number of ranks, or
    multiplied, as Horovod has it."""
    if not (tensor.requires_grad and torch.is_grad_enabled()):
        return tensor
    size = members.size()
    seen = tensor.view_as(tensor)
    seen.register_hook(lambda gradient: gradient / size if is_mean
                       else gradient * size)
    return seen


def _simple(kind: str, name: str | None, members: ProcessSet,
            call: typing.Callable[[], typing.Any]) -> int:
    """An operation that its round runs to its end."""
    def start() -> Started:
        made = call()
        return Started([], lambda: made)
    return _start(kind, name, members, start)


def allgather_async(tensor: Tensor, name: str | None = None,
                    process_set: ProcessSet = global_process_set) -> int:
    """Start gathering the rows of all ranks; each may have another number."""
    return _simple("allgather", name, process_set, lambda: plain.allgather(
        _scaled(tensor, process_set, True), members=process_set.members))


allgather = _waits(allgather_async)


def grouped_allgather_async(tensors: Tensors, name: str | None = None,
                            process_set: ProcessSet = global_process_set
                            ) -> int:
    """The same of several tensors."""
    return _simple("grouped_allgather", name, process_set, lambda: [
        plain.allgather(_scaled(one, process_set, True),
                        members=process_set.members) for one in tensors])


grouped_allgather = _waits(grouped_allgather_async)


def broadcast_async(tensor: Tensor, root_rank: int, name: str | None = None,
                    process_set: ProcessSet = global_process_set) -> int:
    """Start a broadcast into a new tensor."""
    root = process_set.rank_of(root_rank)
    return _simple("broadcast", name, process_set, lambda: plain.broadcast(
        _scaled(tensor, process_set, True), root,
        members=process_set.members))


broadcast = _waits(broadcast_async)


def broadcast_async_(tensor: Tensor, root_rank: int, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> int:
    """Start a broadcast in place."""
    root = process_set.rank_of(root_rank)

    def start() -> Started:
        used = dense(tensor)
        request = process_set.members.start_broadcast(as_moved(used), root)

        def finish() -> Tensor:
            request.wait()
            for to, source in returned(tensor, used):
                to.detach().copy_(source)
            return tensor
        return Started([request], finish)
    return _start("broadcast", name, process_set, start)


broadcast_ = _waits(broadcast_async_)


def _whole(splits: Tensor) -> list[int]:
    if splits.is_floating_point():
        raise Invalid(f"alltoall got splits of {splits.dtype}; pass integers, "
                      "the rows for each rank")
    return splits.tolist()


def alltoall_async(tensor: Tensor, splits: typing.Any = None,
                   name: str | None = None,
                   process_set: ProcessSet = global_process_set) -> int:
    """Start sending splits[r] rows to each rank."""
    counts = None if splits is None else _whole(torch.as_tensor(splits))

    def call() -> typing.Any:
        found = plain.alltoall(tensor, counts, members=process_set.members)
        return found[0] if counts is None else found
    return _simple("alltoall", name, process_set, call)


alltoall = _waits(alltoall_async)


def reducescatter_async(tensor: Tensor, name: str | None = None,
                        op: str = Average,
                        process_set: ProcessSet = global_process_set,
                        prescale_factor: float = 1.0,
                        postscale_factor: float = 1.0) -> int:
    """Start a reduction of which each rank gets its rows."""
    kind = _op(None, op)
    return _simple("reducescatter", name, process_set,
                   lambda: plain.reduce_scatter(
                       _scaled(tensor, process_set, False), op=kind,
                       members=process_set.members,
                       prescale=prescale_factor, postscale=postscale_factor))


def reducescatter(tensor: Tensor, name: str | None = None,
                  compression: typing.Any = Compression.none,
                  op: str = Average,
                  process_set: ProcessSet = global_process_set,
                  prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> Tensor:
    """This rank's rows of the reduction; autograd goes through it."""
    sent, ctx = compression.compress(tensor)
    return compression.decompress(synchronize(reducescatter_async(
        sent, name, op, process_set, prescale_factor, postscale_factor)), ctx)


def grouped_reducescatter_async(tensors: Tensors, name: str | None = None,
                                op: str = Average,
                                process_set: ProcessSet = global_process_set,
                                prescale_factor: float = 1.0,
                                postscale_factor: float = 1.0) -> int:
    """The same of several tensors."""
    kind = _op(None, op)
    return _simple("grouped_reducescatter", name, process_set, lambda: [
        plain.reduce_scatter(_scaled(one, process_set, False), op=kind,
                             members=process_set.members,
                             prescale=prescale_factor,
                             postscale=postscale_factor) for one in tensors])


def grouped_reducescatter(tensors: Tensors, name: str | None = None,
                          compression: typing.Any = Compression.none,
                          op: str = Average,
                          process_set: ProcessSet = global_process_set,
                          prescale_factor: float = 1.0,
                          postscale_factor: float = 1.0) -> list[Tensor]:
    """This rank's rows of several reductions."""
    sent = [compression.compress(one) for one in tensors]
    found = synchronize(grouped_reducescatter_async(
        [one for one, _ in sent], name, op, process_set, prescale_factor,
        postscale_factor))
    return [compression.decompress(one, ctx)
            for one, (_, ctx) in zip(found, sent)]


# ------------------------------------------------------------ without data

def join(device: int = -1) -> int:
    """This rank has no more data; until all ranks have joined it adds nothing
    to the others' allreduces. The rank that joined last."""
    del device
    request = global_process_set.members.start_join()
    global_process_set.queue.join()
    return request.wait()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait for all ranks."""
    synchronize(_simple("barrier", None, process_set,
                        process_set.members.barrier))


__all__ = [
    "Adasum", "Average", "Compression", "Max", "Min", "Product", "Sum",
    "allgather", "allgather_async", "allreduce", "allreduce_",
    "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async",
    "barrier", "broadcast", "broadcast_", "broadcast_async",
    "broadcast_async_", "grouped_allgather", "grouped_allgather_async",
    "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
    "grouped_allreduce_async_", "grouped_reducescatter",
    "grouped_reducescatter_async", "join", "poll", "reducescatter",
    "reducescatter_async", "sparse_allreduce_async", "synchronize"]
