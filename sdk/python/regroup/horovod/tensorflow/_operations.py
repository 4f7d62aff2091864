"""Operations of TensorFlow's tensors, by Horovod's names.

Each is one Python function, which TensorFlow calls in the order of the program,
also inside of tf.function; so they match by that order, and by their names only
where these are given. What ranks and sets are is asked when it is called: a
graph outlives a change of workers.
"""

from __future__ import annotations

import typing

import numpy
import tensorflow as tf

from ..._abi import Op
from ..._errors import Invalid
from ..._sets import Set
from .._basics import (OPS, Adasum, Average, Max, Min, ProcessSet, Product, Sum,
                       global_process_set, joins, named_op)

Tensor = typing.Any
Arrays = list[numpy.ndarray]
OnArrays = typing.Callable[[Arrays], typing.Sequence[numpy.ndarray]]


class Compressor:
    """How a tensor travels."""

    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, typing.Any]:
        """The tensor to send, and what decompress needs."""
        return tensor, tensor.dtype

    @staticmethod
    def decompress(tensor: Tensor, ctx: typing.Any) -> Tensor:
        """The other way."""
        return tf.cast(tensor, ctx)


class _Half(Compressor):
    @staticmethod
    def compress(tensor: Tensor) -> tuple[Tensor, typing.Any]:
        return (tf.cast(tensor, tf.float16) if tensor.dtype.is_floating
                else tensor), tensor.dtype


class Compression:
    """The ways that there are."""

    none = Compressor
    fp16 = _Half


# ------------------------------------------------------------ into Python

def _call(function: OnArrays, tensors: typing.Sequence[Tensor],
          kinds: typing.Sequence[typing.Any],
          shapes: typing.Sequence[typing.Any]) -> list[Tensor]:
    """What a function makes of copies of the tensors; it may write there."""
    made = tf.numpy_function(
        lambda *arrays: list(function([numpy.array(one, order="C")
                                       for one in arrays])),
        list(tensors), list(kinds))
    if not isinstance(made, (list, tuple)):  # it returns one as it is
        made = [made]
    for one, shape in zip(made, shapes):
        one.set_shape(shape)
    return list(made)


def _operation(function: OnArrays, backward: OnArrays, given: Tensor,
               shape: typing.Any, *more: Tensor) -> list[Tensor]:
    """A tensor's operation, and its gradient, of the result's and what was
    given. `more` has results of its own, and no gradient."""
    @tf.custom_gradient
    def run(tensor: Tensor) -> typing.Any:
        made = _call(function, [tensor, *more],
                     [one.dtype for one in (tensor, *more)],
                     [shape] + [one.shape for one in more])
        return made, lambda *upstream: _call(
            backward, [upstream[0], tensor, *more], [tensor.dtype],
            [tensor.shape])[0]
    return run(tf.convert_to_tensor(given))


def _tag(kind: str, name: str | None) -> typing.Any:
    return None if name is None else (kind, name)


def _rows(shape: typing.Any) -> typing.Any:
    """The same with any number of rows."""
    return [None] + list(shape)[1:]


# -------------------------------------------------------------- allreduce

def _reduce(arrays: Arrays, members: Set, op: str, prescale: float,
            postscale: float, tag: typing.Any = None) -> Arrays:
    if op != Adasum:
        members.grouped_allreduce(arrays, arrays, op=OPS[op], tag=tag,
                                  prescale=prescale, postscale=postscale)
        return arrays
    for one in arrays:
        members.adasum(one, one)
        one *= one.dtype.type(prescale * postscale)
    return arrays


def grouped_allreduce(tensors: typing.Sequence[Tensor],
                      average: bool | None = None, device_dense: str = "",
                      device_sparse: str = "",
                      compression: typing.Any = Compression.none,
                      op: str | None = None, prescale_factor: float = 1.0,
                      postscale_factor: float = 1.0, name: str | None = None,
                      process_set: ProcessSet = global_process_set
                      ) -> list[Tensor]:
    """Reduce several tensors into new ones."""
    del device_dense, device_sparse
    kind, tag = named_op(average, op), _tag("allreduce", name)

    def reduce(arrays: Arrays) -> Arrays:
        return _reduce(arrays, process_set.members, kind, prescale_factor,
                       postscale_factor, tag)

    @tf.custom_gradient
    def run(*given: Tensor) -> typing.Any:
        kinds = [one.dtype for one in given]
        shapes = [one.shape for one in given]
        return _call(reduce, given, kinds, shapes), \
            lambda *upstream: _call(reduce, upstream, kinds, shapes)
    pairs = [compression.compress(tf.convert_to_tensor(one))
             for one in tensors]
    return [compression.decompress(one, ctx) for one, (_, ctx)
            in zip(run(*[one for one, _ in pairs]), pairs)] if pairs else []


def allreduce(tensor: Tensor, *arguments: typing.Any,
              process_set: ProcessSet = global_process_set,
              **named: typing.Any) -> Tensor:
    """Reduce into a new tensor; arguments are those of grouped_allreduce.
    IndexedSlices are gathered; their user adds them up or averages them."""
    if not isinstance(tensor, tf.IndexedSlices):
        return grouped_allreduce([tensor], *arguments, process_set=process_set,
                                 **named)[0]
    average = arguments[0] if arguments else named.get("average")
    kind = named_op(average, named.get("op"))
    if kind not in (Average, Sum):
        raise Invalid("IndexedSlices are added or averaged only")
    return tf.IndexedSlices(
        _gathered(tensor.values, process_set, kind == Average),
        _gathered(tensor.indices, process_set),
        dense_shape=tensor.dense_shape)


def reduced_gradients(gradients: typing.Iterable[Tensor], op: str,
                      compression: typing.Any, sparse_as_dense: bool,
                      predivide: float, members: ProcessSet,
                      scale: float = 1.0) -> list[Tensor]:
    """Of all ranks; None stays None."""
    if predivide != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != "
                         "Average")
    made = [tf.convert_to_tensor(one)
            if sparse_as_dense and isinstance(one, tf.IndexedSlices) else one
            for one in gradients]
    dense = [i for i, one in enumerate(made) if one is not None
             and not isinstance(one, tf.IndexedSlices)]
    found = grouped_allreduce(
        [made[i] for i in dense], op=op, compression=compression,
        prescale_factor=1.0 / predivide, postscale_factor=predivide * scale,
        process_set=members)
    for i, one in zip(dense, found):
        made[i] = one
    return [allreduce(one, op=op, process_set=members)
            if isinstance(one, tf.IndexedSlices) else one for one in made]


# ----------------------------------------------------- moving and scattering

def _gathered(tensor: Tensor, process_set: ProcessSet,
              is_mean: bool = False, tag: typing.Any = None) -> Tensor:
    def gather(arrays: Arrays) -> Arrays:
        members = process_set.members
        found = members.allgatherv(arrays[0], tag=tag)
        return [found / found.dtype.type(members.size) if is_mean else found]

    def back(arrays: Arrays) -> Arrays:
        members = process_set.members
        counts = members.allgather(numpy.array([len(arrays[1])]))
        return [members.reduce_scatter(arrays[0], op=Op.AVG,
                                       counts=counts.tolist())]
    given = tf.convert_to_tensor(tensor)
    return _operation(gather, back, given, _rows(given.shape))[0]


def allgather(tensor: Tensor, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> Tensor:
    """The rows of all ranks; each may have another number."""
    return _gathered(tensor, process_set, tag=_tag("allgather", name))


def grouped_allgather(tensors: typing.Sequence[Tensor],
                      name: str | None = None,
                      process_set: ProcessSet = global_process_set
                      ) -> list[Tensor]:
    """The same of several tensors."""
    return [allgather(one, name, process_set) for one in tensors]


def broadcast(tensor: Tensor, root_rank: int, name: str | None = None,
              process_set: ProcessSet = global_process_set) -> Tensor:
    """A new tensor with root's elements."""
    def send(arrays: Arrays) -> Arrays:
        process_set.members.broadcast(arrays[0],
                                      process_set.rank_of(root_rank),
                                      tag=_tag("broadcast", name))
        return arrays

    def back(arrays: Arrays) -> Arrays:
        members = process_set.members
        found = members.allreduce(arrays[0], op=Op.AVG)
        is_root = members.rank == process_set.rank_of(root_rank)
        return [found if is_root else numpy.zeros_like(found)]
    given = tf.convert_to_tensor(tensor)
    return _operation(send, back, given, given.shape)[0]


def alltoall(tensor: Tensor, splits: typing.Any = None,
             name: str | None = None,
             process_set: ProcessSet = global_process_set) -> typing.Any:
    """Send splits[r] rows to each rank. What has come; with splits also how
    many rows of each rank."""
    def even(rows: numpy.ndarray) -> numpy.ndarray:
        size = process_set.members.size
        if len(rows) % size:
            raise Invalid(f"alltoall of {len(rows)} rows on a set of {size}; "
                          "pass the splits")
        return numpy.full(size, len(rows) // size)

    def send(arrays: Arrays) -> Arrays:
        made, came = process_set.members.alltoallv(
            arrays[0], arrays[1] if len(arrays) > 1 else even(arrays[0]),
            tag=_tag("alltoall", name))
        return [made] + [numpy.array(came, one.dtype) for one in arrays[1:]]

    def back(arrays: Arrays) -> Arrays:
        members = process_set.members
        counts = arrays[2] if len(arrays) > 2 else even(arrays[1])
        return members.alltoallv(
            arrays[0], members.alltoall(counts.astype("i8")))[:1]
    given = tf.convert_to_tensor(tensor)
    more = [] if splits is None else [tf.convert_to_tensor(splits)]
    made = _operation(send, back, given, _rows(given.shape), *more)
    return made[0] if splits is None else tuple(made)


def reducescatter(tensor: Tensor, device_dense: str = "",
                  compression: typing.Any = Compression.none,
                  op: str = Average, name: str | None = None,
                  process_set: ProcessSet = global_process_set,
                  prescale_factor: float = 1.0, postscale_factor: float = 1.0
                  ) -> Tensor:
    """This rank's rows of the reduction."""
    del device_dense
    if op not in (Average, Sum):
        raise Invalid("reducescatter adds or averages only")

    def scatter(arrays: Arrays) -> Arrays:
        return [process_set.members.reduce_scatter(
            arrays[0], op=OPS[op], prescale=prescale_factor,
            postscale=postscale_factor, tag=_tag("reducescatter", name))]

    def back(arrays: Arrays) -> Arrays:
        members = process_set.members
        found = members.allgatherv(arrays[0])
        return [found * found.dtype.type(members.size) if op == Sum else found]
    sent, ctx = compression.compress(tf.convert_to_tensor(tensor))
    return compression.decompress(
        _operation(scatter, back, sent, _rows(sent.shape))[0], ctx)


def grouped_reducescatter(tensors: typing.Sequence[Tensor],
                          *arguments: typing.Any, **named: typing.Any
                          ) -> list[Tensor]:
    """The same of several tensors; arguments are those of reducescatter."""
    return [reducescatter(one, *arguments, **named) for one in tensors]


# --------------------------------------------------- equal on all ranks

def broadcast_variables(variables: typing.Iterable[typing.Any],
                        root_rank: int = 0,
                        process_set: ProcessSet = global_process_set,
                        inplace: bool = False) -> None:
    """Fill variables with root's; while a worker joins a running job nothing,
    since elastic.run does that."""
    del inplace
    if joins():
        return
    for one in variables:
        array = numpy.array(one.numpy(), order="C")
        process_set.members.broadcast(array, process_set.rank_of(root_rank))
        one.assign(array)


def broadcast_object(obj: typing.Any, root_rank: int = 0, session: object = None,
                     name: str | None = None,
                     process_set: ProcessSet = global_process_set
                     ) -> typing.Any:
    """The object that root has."""
    del session, name
    return process_set.members.broadcast_object(
        obj, process_set.rank_of(root_rank))


def allgather_object(obj: typing.Any, session: object = None,
                     name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> list:
    """The objects of all ranks."""
    del session, name
    return process_set.members.allgather_object(obj)


def join() -> int:
    """This rank has no more data; until all ranks have joined it adds nothing
    to the others' allreduces. The rank that joined last."""
    return global_process_set.members.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Wait for all ranks."""
    process_set.members.barrier()


__all__ = [
    "Adasum", "Average", "Compression", "Max", "Min", "Product", "Sum",
    "allgather", "allgather_object", "allreduce", "alltoall", "barrier",
    "broadcast", "broadcast_object", "broadcast_variables",
    "grouped_allgather", "grouped_allreduce", "grouped_reducescatter", "join",
    "reducescatter"]
