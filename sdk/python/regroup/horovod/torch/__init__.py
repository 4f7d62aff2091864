"""Horovod's interface for PyTorch, over Regroup.

    import regroup.horovod.torch as hvd

in place of `import horovod.torch as hvd`, and `regroup run -n 4 python3
program.py` in place of horovodrun. docs/horovod.md has the table of names.
"""

from __future__ import annotations

import typing

import torch

from ..._errors import HostsChanged as HostsUpdatedInterrupt
from ..._errors import PeerLost as HorovodInternalError
from ...torch import SyncBatchNorm as _SyncBatchNorm
from ...torch import _functions as _plain
from ...torch._optimizer import Alone, with_added
from ...torch._optimizer import DistributedOptimizer as _distributed
from .. import _basics
from .._basics import *  # noqa: F403
from .._basics import ProcessSet, global_process_set
from . import _operations, elastic
from ._operations import *  # noqa: F403
from ._operations import (Adasum, Average, Compression, _op, _simple,
                          synchronize)


class SyncBatchNorm(_SyncBatchNorm):
    """Batch norm over the samples of all ranks."""

    def __init__(self, num_features: int, *arguments: typing.Any,
                 process_set: ProcessSet = global_process_set,
                 **named: typing.Any) -> None:
        super().__init__(num_features, *arguments, **named)
        if process_set is not global_process_set:
            self.members = process_set.members


def broadcast_parameters(params: typing.Any, root_rank: int = 0,
                         process_set: ProcessSet = global_process_set) -> None:
    """Fill tensors with root's; while a worker joins a running job nothing,
    since elastic.run does that."""
    if not _basics.joins():
        synchronize(_simple(
            "broadcast_parameters", None, process_set,
            lambda: _plain.broadcast_parameters(
                params, process_set.rank_of(root_rank),
                members=process_set.members)))


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer,
                              root_rank: int = 0, model: typing.Any = None,
                              process_set: ProcessSet = global_process_set
                              ) -> None:
    """Give an optimizer root's state and options."""
    del model
    if not _basics.joins():
        synchronize(_simple(
            "broadcast_optimizer_state", None, process_set,
            lambda: _plain.broadcast_optimizer_state(
                optimizer, process_set.rank_of(root_rank),
                members=process_set.members)))


def broadcast_object(obj: typing.Any, root_rank: int = 0,
                     name: str | None = None,
                     process_set: ProcessSet = global_process_set
                     ) -> typing.Any:
    """The object that root has."""
    return synchronize(_simple(
        "broadcast_object", name, process_set,
        lambda: process_set.members.broadcast_object(
            obj, process_set.rank_of(root_rank))))


def allgather_object(obj: typing.Any, name: str | None = None,
                     process_set: ProcessSet = global_process_set) -> list:
    """The objects of all ranks."""
    return synchronize(_simple(
        "allgather_object", name, process_set,
        lambda: process_set.members.allgather_object(obj)))


# What a Reducer does itself.
_WIRES = {Compression.none: None, Compression.fp16: "f16"}


def _check_names(optimizer: torch.optim.Optimizer, named: typing.Any) -> None:
    pairs = list(named)
    if any(not isinstance(one, tuple) for one in pairs):
        raise ValueError("named_parameters should be a sequence of tuples "
                         "(name, parameter), usually produced by "
                         "model.named_parameters().")
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError("Parameter names in named_parameters must be unique.")
    known = {id(p) for _, p in pairs}
    if any(id(p) not in known for group in optimizer.param_groups
           for p in group["params"]):
        raise ValueError("named_parameters was specified, but one or more "
                         "model parameters were not named.")


def DistributedOptimizer(  # pylint: disable=invalid-name
        optimizer: torch.optim.Optimizer, named_parameters: typing.Any = None,
        compression: typing.Any = Compression.none,
        backward_passes_per_step: int = 1, op: str = Average,
        gradient_predivide_factor: float = 1.0, num_groups: int = 0,
        groups: typing.Any = None, sparse_as_dense: bool = False,
        process_set: ProcessSet = global_process_set
        ) -> torch.optim.Optimizer:
    """The optimizer with gradients that are reduced over all ranks while
    backward runs; with op=Adasum the changes that its steps make are. Groups
    make no difference: all gradients are reduced in buckets. On a rank outside
    of the process set nothing is reduced."""
    del num_groups, groups
    if named_parameters is not None:
        _check_names(optimizer, named_parameters)
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor not supported with op != "
                         "Average")
    if backward_passes_per_step <= 0:
        raise ValueError("backward_passes_per_step must be > 0")
    if process_set.included() is False:
        return with_added(optimizer, Alone)
    return _distributed(
        optimizer, op=_op(None, Average if op == Adasum else op),
        adasum=op == Adasum,
        compression=_WIRES.get(compression, compression),
        members=None if process_set is global_process_set
        else process_set.members, passes=backward_passes_per_step,
        prescale=1.0 / gradient_predivide_factor,
        postscale=gradient_predivide_factor,
        sparse_as_dense=sparse_as_dense)


__all__ = _basics.__all__ + _operations.__all__ + [
    "DistributedOptimizer", "HorovodInternalError", "HostsUpdatedInterrupt",
    "SyncBatchNorm", "allgather_object", "broadcast_object",
    "broadcast_optimizer_state", "broadcast_parameters", "elastic"]
