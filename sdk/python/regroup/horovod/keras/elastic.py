"""Horovod's elastic loop for Keras: run, the state, and its callbacks."""

from __future__ import annotations

import typing

import keras

from ..tensorflow.elastic import TensorFlowKerasState as KerasState
from ..tensorflow.elastic import run

Logs = dict[str, typing.Any] | None


class _OfState(keras.callbacks.Callback):
    def __init__(self, state: KerasState) -> None:
        super().__init__()
        self.state = state


class CommitStateCallback(_OfState):
    """Commits after every so many batches, and after an epoch."""

    def __init__(self, state: KerasState, batches_per_commit: int = 1) -> None:
        super().__init__(state)
        self.batches_per_commit = self.left = batches_per_commit

    def on_train_begin(self, logs: Logs = None) -> None:
        """Count from here."""
        self.left = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Count."""
        self.left -= 1
        if self.left == 0:
            self.state.commit()
            self.left = self.batches_per_commit

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Once more."""
        self.state.commit()


class UpdateBatchStateCallback(_OfState):
    """state.batch is the batch that has ended last in its epoch, and 0 behind
    an epoch."""

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Note it."""
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Begin again."""
        self.state.batch = 0


class UpdateEpochStateCallback(_OfState):
    """state.epoch is the number of epochs that have ended."""

    def __init__(self, state: KerasState) -> None:
        super().__init__(state)
        self.before = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        """fit counts from 0 again."""
        self.before = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Note it."""
        self.state.epoch = self.before + epoch + 1


__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback",
           "UpdateEpochStateCallback", "run"]
