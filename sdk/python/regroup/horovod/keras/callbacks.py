"""Horovod's callbacks for model.fit."""

from __future__ import annotations

import typing

import keras
import numpy

from ..._errors import Invalid
from .._basics import ProcessSet, global_process_set, size
from ..tensorflow._operations import broadcast_variables

Logs = dict[str, typing.Any] | None


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """After the first batch all ranks go on with what root has."""

    def __init__(self, root_rank: int, device: str = "",
                 local_variables: typing.Any = None) -> None:
        super().__init__()
        del device, local_variables
        self.root_rank = root_rank
        self.is_done = False

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """The optimizer has made its variables by now."""
        if not self.is_done:
            broadcast_variables(self.model.weights, self.root_rank)
            broadcast_variables(self.model.optimizer.variables, self.root_rank)
        self.is_done = True


class MetricAverageCallback(keras.callbacks.Callback):
    """Callbacks behind this one see averages over all ranks."""

    def __init__(self, device: str = "",
                 process_set: ProcessSet = global_process_set) -> None:
        super().__init__()
        del device
        self.process_set = process_set

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Average what was logged."""
        names = sorted(logs or {})
        if logs and names:
            found = numpy.array([float(logs[name]) for name in names])
            self.process_set.members.allreduce(found, found)
            logs.update(zip(names, (found / self.process_set.size()).tolist()))


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """The rate is initial_lr * multiplier(epoch), from start_epoch up to, but
    not at, end_epoch; with staircase at an epoch's first batch, otherwise in
    each batch, of a fraction of an epoch. A number is a factor for all epochs.
    Keras 3 has no momentum that could be corrected."""

    def __init__(self, initial_lr: float, multiplier: typing.Any,
                 start_epoch: int = 0, end_epoch: int | None = None,
                 staircase: bool = True, momentum_correction: bool = True,
                 steps_per_epoch: int | None = None) -> None:
        super().__init__()
        del momentum_correction
        self.initial_lr = initial_lr
        self.multiplier = multiplier if callable(multiplier) \
            else lambda epoch: multiplier
        self.start_epoch, self.end_epoch = start_epoch, end_epoch
        self.staircase = staircase or not callable(multiplier)
        self.steps_per_epoch = steps_per_epoch
        self.epoch = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        """A fraction of an epoch needs its steps."""
        self.steps_per_epoch = self.steps_per_epoch or \
            (self.params or {}).get("steps")
        if not self.staircase and not self.steps_per_epoch:
            raise Invalid("the steps of an epoch are not known; give "
                          f"{type(self).__name__} steps_per_epoch")

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Remember it."""
        self.epoch = epoch

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Set the rate."""
        if self.epoch < self.start_epoch or (
                self.end_epoch is not None and self.epoch >= self.end_epoch):
            return
        if self.staircase and batch == 0:
            self._set(self.epoch)
        elif not self.staircase:
            self._set(self.epoch + batch / self.steps_per_epoch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Log it."""
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)

    def _set(self, epoch: float) -> None:
        self.model.optimizer.learning_rate = \
            self.initial_lr * self.multiplier(epoch)


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """From initial_lr / size to initial_lr, which is for all ranks, within the
    first epochs."""

    def __init__(self, initial_lr: float, warmup_epochs: int = 5,
                 momentum_correction: bool = True,
                 steps_per_epoch: int | None = None, verbose: int = 0) -> None:
        def grows(epoch: float) -> float:
            done = (epoch + 1 / self.steps_per_epoch) / warmup_epochs
            return (done * (size() - 1) + 1) / size()
        super().__init__(initial_lr, grows, 0, warmup_epochs, False,
                         momentum_correction, steps_per_epoch)
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Say that it is over."""
        super().on_epoch_end(epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose:
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate "
                  f"warmup to {float(self.model.optimizer.learning_rate)}.")


class BestModelCheckpoint(keras.callbacks.ModelCheckpoint):
    """ModelCheckpoint of the best epoch."""

    def __init__(self, monitor: str = "val_loss", verbose: int = 0,
                 mode: str = "auto", save_freq: str = "epoch",
                 filepath: str = "best.keras") -> None:
        super().__init__(filepath, monitor=monitor, verbose=verbose,
                         save_best_only=True, mode=mode, save_freq=save_freq)


__all__ = [
    "BestModelCheckpoint", "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback", "LearningRateWarmupCallback",
    "MetricAverageCallback"]
