"""Horovod's elastic loop for TensorFlow: run, and states."""

from __future__ import annotations

import functools
import typing

import numpy
import tensorflow as tf

from ..._kept import KeptState
from .. import _elastic
from .._elastic import KeptByRun


class _Place:
    """Registered memory of a variable."""

    def __init__(self, variable: typing.Any) -> None:
        self.variable = variable
        self.memory = numpy.array(variable.numpy(), order="C")

    def array(self) -> numpy.ndarray:
        """As State.add takes it."""
        return self.memory


class _Variables:
    """Those of a model, of an optimizer, or a list. What is not trained, such
    as running statistics, may differ between ranks."""

    def __init__(self, variables: typing.Iterable[typing.Any],
                 trained: typing.Iterable[typing.Any]) -> None:
        self.places = dict(enumerate(map(_Place, variables)))
        self._trained = {id(one) for one in trained}

    def add_to(self, state: typing.Any, prefix: str) -> None:
        """Register them."""
        for i, place in self.places.items():
            is_trained = id(place.variable) in self._trained
            state.add(f"{prefix}.{i}", place.memory, constant=not is_trained,
                      may_differ=not is_trained)

    def save(self) -> None:
        """Before a commit."""
        for place in self.places.values():
            place.memory[...] = place.variable.numpy()

    def load(self) -> None:
        """After a restore."""
        for place in self.places.values():
            place.variable.assign(place.memory)

    def record(self) -> None:
        """Nothing more."""

    def set_record(self, _: typing.Any) -> None:
        """Nothing more."""


class _State(KeptState):
    def handler_of(self, value: typing.Any) -> typing.Any:
        """Models, optimizers and lists of variables."""
        if hasattr(value, "apply_gradients"):
            return _Variables(value.variables, value.variables)
        if hasattr(value, "trainable_variables"):
            return _Variables(value.weights, value.trainable_variables)
        if isinstance(value, (list, tuple)) and value and \
                all(hasattr(one, "assign") for one in value):
            return _Variables(value, value)
        return None


class TensorFlowState(KeptByRun):
    """What an elastic program keeps: variables, and counters."""

    def __init__(self, variables: typing.Any = None, **kwargs: typing.Any
                 ) -> None:
        named = {} if variables is None else {"variables": list(variables)}
        super().__init__(_State(random=False, **named, **kwargs))


class TensorFlowKerasState(KeptByRun):
    """A model that has been built, its optimizer, and counters."""

    def __init__(self, model: typing.Any, optimizer: typing.Any = None,
                 backend: typing.Any = None, **kwargs: typing.Any) -> None:
        del backend
        optimizer = optimizer or getattr(model, "optimizer", None)
        named = {"model": model}
        if optimizer is not None:
            if not optimizer.built:
                optimizer.build(model.trainable_variables)
            named["optimizer"] = optimizer
        super().__init__(_State(random=False, **named, **kwargs))


def run(func: typing.Callable) -> typing.Callable:
    """Decorator: a training function whose first argument is a state is called
    again after each change."""
    @functools.wraps(func)
    def told(*arguments: typing.Any, **named: typing.Any) -> typing.Any:
        try:
            return func(*arguments, **named)
        except tf.errors.OpError as error:  # has the text of ours
            raise RuntimeError(str(error)) from error
    return _elastic.run(told)


__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]
