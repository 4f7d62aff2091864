"""Regroup for PyTorch.

    import regroup.torch
    dist.init_process_group("regroup", init_method="regroup://")

and `regroup run -n 4 python3 program.py`: torch.distributed, and DDP on it,
then run over process sets. docs/torch.md tells the rest.
"""

from ._data import BatchSampler, ElasticSampler
from ._model_state import State
from ._rendezvous import register

register()

__all__ = ["BatchSampler", "ElasticSampler", "State", "register"]
