"""Which samples a rank takes, for torch's DataLoader: the same samples in the
same steps for every size of the world."""

from __future__ import annotations

import math
import random
import typing

import torch

# Sampler.__init__ does nothing, and takes an argument only in older torch.
# pylint: disable=super-init-not-called

from .._context import current
from .._state import Sampler
from ._model_state import State


def _place() -> tuple[int, int]:
    """This worker's rank, and the size of the world."""
    ctx = current()
    if ctx is None or ctx.rank < 0:
        return 0, 1
    return ctx.rank, ctx.size


class BatchSampler(torch.utils.data.Sampler):
    """The rows of this rank in each step's batch, from the step that State is
    at to the end of its epoch: DataLoader(data, batch_sampler=...).

    count: samples in the data set; batch: those of a step, over all ranks.
    Each step ends with State.commit or step_end. A rank never gets an empty
    list: where a step has fewer samples than there are ranks, some are taken
    twice.
    """

    def __init__(self, count: int, batch: int, *, state: State, seed: int = 0,
                 in_order: bool = False) -> None:
        self._state = state
        self._sampler = Sampler(count, batch, seed=seed, in_order=in_order,
                                state=state.plain)

    @property
    def steps(self) -> int:
        """Steps in one epoch."""
        return self._sampler.steps

    @property
    def epoch(self) -> int:
        """The epoch that State is in, from 0."""
        return self._state.steps // self.steps

    def __len__(self) -> int:
        return self.steps - self._state.steps % self.steps

    def __iter__(self) -> typing.Iterator[list[int]]:
        epoch, first = divmod(self._state.steps, self.steps)
        for step in range(first, self.steps):
            rank, size = _place()
            yield (self._sampler.take(epoch, step, rank, size)
                   or self._sampler.take(epoch, step, 0, 1)[:1])


class ElasticSampler(torch.utils.data.Sampler):
    """Horovod's: the samples of an epoch that are left are dealt to the ranks
    again after each change. Give it to State; call record_batch after each
    batch and set_epoch at the end of each epoch."""

    def __init__(self, dataset: typing.Sized, shuffle: bool = True,
                 seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def reset(self) -> None:
        """Deal what is left to the ranks that there are."""
        self.rank, self.num_replicas = _place()
        order = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(order)
        self.remaining_indices = order[self.processed_num:]
        self.num_samples = math.ceil(len(self.remaining_indices)
                                     / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: no sample of it is processed yet."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """All ranks have processed a batch of that many samples each."""
        del batch_idx  # batches are processed in order
        self.processed_num += batch_size * self.num_replicas

    def record_indices(self, indices: typing.Sequence[int]) -> None:
        """All ranks have processed that many samples each."""
        self.processed_num += len(indices) * self.num_replicas

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """This rank's samples of a batch."""
        mine = list(self)
        return mine[batch_idx * batch_size:(batch_idx + 1) * batch_size]

    def state_dict(self) -> dict[str, int]:
        """For State."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """The other way; what is left is dealt again."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> typing.Iterator[int]:
        order = self.remaining_indices
        padded = (order * math.ceil(self.total_size / max(1, len(order)))
                  )[:self.total_size]
        return iter(padded[self.rank::self.num_replicas])
