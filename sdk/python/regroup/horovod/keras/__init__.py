"""Horovod's interface for Keras 3 on TensorFlow, over Regroup.

    import regroup.horovod.keras as hvd

in place of `import horovod.keras as hvd` or `horovod.tensorflow.keras`.
docs/horovod.md has the table of names.
"""

from __future__ import annotations

import typing

import keras

from .. import _basics, tensorflow
from .._basics import *  # noqa: F403
from .._basics import ProcessSet, global_process_set
from ..tensorflow import HorovodInternalError, HostsUpdatedInterrupt
from ..tensorflow import _operations
from ..tensorflow._operations import *  # noqa: F403
from ..tensorflow._operations import (Average, Compression,
                                      broadcast_variables, reduced_gradients)
from . import callbacks, elastic

if not hasattr(keras, "config") or keras.config.backend() != "tensorflow":
    raise ImportError("regroup.horovod.keras needs Keras 3 on TensorFlow; "
                      "install tensorflow 2.16 or later, and leave "
                      "KERAS_BACKEND out, or use regroup.torch")


class _Distributed:
    """What DistributedOptimizer adds to an optimizer's class."""

    reduced: dict[str, typing.Any]

    def apply(self, grads: typing.Any, trainable_variables: typing.Any = None
              ) -> typing.Any:
        """As of any optimizer, with the gradients of all ranks."""
        return super().apply(  # type: ignore[misc]
            reduced_gradients(grads, **self.reduced), trainable_variables)


def DistributedOptimizer(  # pylint: disable=invalid-name
        optimizer: typing.Any, name: str | None = None,
        device_dense: str = "", device_sparse: str = "",
        compression: typing.Any = Compression.none,
        sparse_as_dense: bool = False, gradient_predivide_factor: float = 1.0,
        op: str = Average, num_groups: int = 0, groups: typing.Any = None,
        process_set: ProcessSet = global_process_set,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False) -> typing.Any:
    """An optimizer like this one, before its first step, whose gradients are
    reduced over all ranks: all dense ones together, in each backward pass."""
    del name, device_dense, device_sparse, num_groups, groups
    plain = type(optimizer)
    kind = type(plain.__name__, (_Distributed, plain), {
        "__module__": plain.__module__})  # a saved model names the plain one
    config = optimizer.get_config()
    if backward_passes_per_step > 1:
        config["gradient_accumulation_steps"] = backward_passes_per_step
    made = kind.from_config(config)
    made.reduced = {
        "op": op, "compression": compression, "members": process_set,
        "sparse_as_dense": sparse_as_dense,
        "predivide": gradient_predivide_factor,
        "scale": 1.0 if average_aggregated_gradients
        else float(backward_passes_per_step)}  # which Keras divides by
    return made


def broadcast_global_variables(root_rank: int, model: typing.Any) -> None:
    """Fill a model's weights with root's, and those of its optimizer."""
    broadcast_variables(model.weights, root_rank)
    if getattr(model, "optimizer", None) is not None:
        broadcast_variables(model.optimizer.variables, root_rank)


def load_model(filepath: typing.Any, custom_optimizers: typing.Any = None,
               custom_objects: typing.Any = None,
               compression: typing.Any = Compression.none) -> typing.Any:
    """A saved model; its optimizer, with its state, is a DistributedOptimizer.
    """
    objects = {one.__name__: one for one in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    former = model.optimizer
    made = DistributedOptimizer(former, compression=compression)
    made.build(model.trainable_variables)
    for one, other in zip(made.variables, former.variables):
        one.assign(other)
    model.optimizer = made
    return model


__all__ = _basics.__all__ + _operations.__all__ + [
    "DistributedOptimizer", "HorovodInternalError", "HostsUpdatedInterrupt",
    "broadcast_global_variables", "callbacks", "elastic", "load_model"]
