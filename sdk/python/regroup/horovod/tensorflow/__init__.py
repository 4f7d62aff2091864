"""Horovod's interface for TensorFlow 2, over Regroup.

    import regroup.horovod.tensorflow as hvd

in place of `import horovod.tensorflow as hvd`. docs/horovod.md has the table of
names.
"""

from __future__ import annotations

import typing

from ..._errors import HostsChanged as HostsUpdatedInterrupt
from ..._errors import PeerLost as HorovodInternalError
from .. import _basics
from .._basics import *  # noqa: F403
from .._basics import ProcessSet, global_process_set
from . import _operations, elastic
from ._operations import *  # noqa: F403
from ._operations import Average, Compression, reduced_gradients


class _Tape:
    """A tape whose gradients are those of all ranks."""

    def __init__(self, tape: typing.Any, **options: typing.Any) -> None:
        self._tape = tape
        self._options = options

    def __getattr__(self, name: str) -> typing.Any:
        return getattr(self._tape, name)

    def __enter__(self) -> _Tape:
        self._tape.__enter__()
        return self

    def __exit__(self, *error: typing.Any) -> typing.Any:
        return self._tape.__exit__(*error)

    def gradient(self, target: typing.Any, sources: typing.Any,
                 *arguments: typing.Any, **named: typing.Any) -> typing.Any:
        """As of any tape, and reduced."""
        found = self._tape.gradient(target, sources, *arguments, **named)
        if isinstance(found, (list, tuple)):
            return type(found)(reduced_gradients(found, **self._options))
        return reduced_gradients([found], **self._options)[0]


def DistributedGradientTape(  # pylint: disable=invalid-name
        gradtape: typing.Any, device_dense: str = "", device_sparse: str = "",
        compression: typing.Any = Compression.none,
        sparse_as_dense: bool = False, op: str = Average,
        gradient_predivide_factor: float = 1.0, num_groups: int = 0,
        groups: typing.Any = None, process_set: ProcessSet = global_process_set
        ) -> typing.Any:
    """The tape with gradients that are reduced over all ranks, all dense ones
    together."""
    del device_dense, device_sparse, num_groups, groups
    return _Tape(gradtape, op=op, compression=compression,
                 sparse_as_dense=sparse_as_dense,
                 predivide=gradient_predivide_factor, members=process_set)


def DistributedOptimizer(  # pylint: disable=invalid-name
        optimizer: typing.Any, *arguments: typing.Any, **named: typing.Any
        ) -> typing.Any:
    """That of regroup.horovod.keras."""
    from .. import keras  # pylint: disable=import-outside-toplevel
    return keras.DistributedOptimizer(optimizer, *arguments, **named)


__all__ = _basics.__all__ + _operations.__all__ + [
    "DistributedGradientTape", "DistributedOptimizer", "HorovodInternalError",
    "HostsUpdatedInterrupt", "elastic"]
