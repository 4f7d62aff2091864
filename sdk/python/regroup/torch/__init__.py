"""Regroup for PyTorch.

    import regroup.torch
    dist.init_process_group("regroup", init_method="regroup://")

and `regroup run -n 4 python3 program.py`: torch.distributed, and DDP on it,
then run over process sets. docs/torch.md tells the rest.
"""

from ._data import BatchSampler, ElasticSampler
from ._functions import (SyncBatchNorm, allgather, allgather_object, allreduce,
                         alltoall, broadcast, broadcast_object,
                         broadcast_optimizer_state, broadcast_parameters,
                         empty, reduce_scatter)
from ._model_state import State
from ._optimizer import DistributedOptimizer
from ._rendezvous import register

register()

__all__ = [
    "BatchSampler", "DistributedOptimizer", "ElasticSampler", "State",
    "SyncBatchNorm", "allgather", "allgather_object", "allreduce", "alltoall",
    "broadcast", "broadcast_object", "broadcast_optimizer_state",
    "broadcast_parameters", "empty", "reduce_scatter", "register"]
