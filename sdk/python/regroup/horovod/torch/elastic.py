"""Horovod's elastic loop: run, states and the sampler."""

from __future__ import annotations

import typing

from ...torch import ElasticSampler, State
from .._elastic import KeptByRun, run


class TorchState(KeptByRun):
    """What an elastic program keeps: see regroup.torch.State."""

    def __init__(self, model: typing.Any = None, optimizer: typing.Any = None,
                 **kwargs: typing.Any) -> None:
        named = {"model": model, "optimizer": optimizer}
        super().__init__(State(
            random=False, **{name: value for name, value in named.items()
                             if value is not None}, **kwargs))


class ObjectState(TorchState):
    """The same without a model. Horovod's two functions are not needed."""

    def __init__(self, bcast_object: typing.Any = None,
                 get_rank: typing.Any = None, **kwargs: typing.Any) -> None:
        del bcast_object, get_rank
        super().__init__(**kwargs)


__all__ = ["ElasticSampler", "ObjectState", "TorchState", "run"]
