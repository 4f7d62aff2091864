"""Models, optimizers and counters as registered memory.

A tensor of a model or an optimizer is registered where it is. What a program
may rebind (Adam's state, which its first step makes; what load_state_dict
puts there) is brought back to the registered memory by each commit.
"""

from __future__ import annotations

import copy
import typing

import torch

from .._errors import Unsupported
from .._kept import KeptState
from .._state import State as PlainState
from ._group import as_moved, dense

# ---------------------------------------------------------------- tensors

def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its memory itself can be registered."""
    return (tensor.device.type == "cpu" and tensor.is_contiguous()
            and tensor.layout == torch.strided)


class _Place:
    """Registered memory for a tensor that a program may rebind."""

    def __init__(self, tensor: torch.Tensor) -> None:
        plain = tensor.detach()
        self.memory = plain if _is_plain(plain) else \
            dense(plain).to("cpu", copy=True).view(plain.shape)
        self.device = plain.device

    def array(self) -> torch.Tensor:
        """As State.add takes it."""
        return as_moved(dense(self.memory))

    def save(self, tensor: torch.Tensor) -> None:
        """Bring what the program has to the registered memory, and the tensor
        too where that is possible."""
        if tensor.data_ptr() == self.memory.data_ptr():
            return
        if (tensor.shape, tensor.dtype) != (self.memory.shape,
                                            self.memory.dtype):
            raise Unsupported(
                f"a tensor of State was {tuple(self.memory.shape)} of "
                f"{self.memory.dtype} when State was made, and is now "
                f"{tuple(tensor.shape)} of {tensor.dtype}; make it as it is "
                "going to be first")
        self.memory.copy_(tensor.detach())
        if _is_plain(tensor.detach()):
            tensor.data = self.memory

    def tensor(self) -> torch.Tensor:
        """What the program gets where it has none: the memory itself, or a
        copy on the tensor's device."""
        return self.memory.to(self.device)

    def load(self, tensor: torch.Tensor) -> None:
        """The other way."""
        if tensor.data_ptr() != self.memory.data_ptr():
            tensor.detach().copy_(self.memory)


# ---------------------------------------------------------------- objects

class _Model:
    """A module's parameters and buffers, by their names, and which parameters
    are frozen and which modules in evaluation."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.places = {name: _Place(tensor)
                       for name, tensor in self._tensors()}

    def _tensors(self) -> typing.Iterator[tuple[str, torch.Tensor]]:
        yield from self.module.named_parameters()
        yield from self.module.named_buffers()

    def add_to(self, state: PlainState, prefix: str) -> None:
        """Register them; buffers such as running statistics may differ."""
        trained = {name for name, one in self.module.named_parameters()
                   if one.requires_grad}
        buffers = {name for name, _ in self.module.named_buffers()}
        for name, place in self.places.items():
            if place.memory.numel():
                state.add(f"{prefix}.{name}", place.array(),
                          may_differ=name in buffers,
                          constant=name not in trained)

    def save(self) -> None:
        """Before a commit."""
        for name, tensor in self._tensors():
            if name not in self.places:
                raise Unsupported(
                    f"the module got the tensor {name!r} after State was made,"
                    " and State can't register it any more; make it first")
            self.places[name].save(tensor)

    def load(self) -> None:
        """After a restore."""
        for name, tensor in self._tensors():
            self.places[name].load(tensor)

    def record(self) -> typing.Any:
        """Names of those that are frozen, and in evaluation."""
        return ([name for name, one in self.module.named_parameters()
                 if not one.requires_grad],
                [name for name, one in self.module.named_modules()
                 if not one.training])

    def set_record(self, record: typing.Any) -> None:
        """The other way."""
        frozen, evaluated = map(set, record)
        for name, parameter in self.module.named_parameters():
            parameter.requires_grad = name not in frozen
        for name, module in self.module.named_modules():
            module.training = name not in evaluated


def _twin(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """A copy that has made its first step, with gradients of zero."""
    plain = getattr(optimizer, "plain_class", type(optimizer))
    twin = plain.__new__(plain)
    twin.__setstate__(copy.deepcopy({
        "defaults": optimizer.defaults, "state": optimizer.state,
        "param_groups": optimizer.param_groups}))
    for group in twin.param_groups:
        for parameter in group["params"]:
            parameter.grad = torch.zeros_like(parameter)
    try:
        twin.step()
    except TypeError as error:  # a closure is missing
        raise Unsupported(
            f"State can't register {plain.__name__}, whose step needs a "
            "closure; register its tensors with add") from error
    return twin


class _Optimizer:
    """An optimizer's tensors, also those that its first step makes."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        self.places: dict[tuple[int, str], _Place] = {}
        self._shape = self._groups()
        twin = _twin(optimizer)
        for i, (mine, other) in enumerate(zip(self._parameters(optimizer),
                                              self._parameters(twin))):
            has = optimizer.state.get(mine, {})
            for key, value in twin.state.get(other, {}).items():
                if isinstance(value, torch.Tensor):
                    found = has.get(key)
                    self.places[i, key] = _Place(
                        value if found is None else found)

    @staticmethod
    def _parameters(optimizer: torch.optim.Optimizer
                    ) -> list[torch.nn.Parameter]:
        return [one for group in optimizer.param_groups
                for one in group["params"]]

    def _groups(self) -> list[int]:
        return [len(group["params"]) for group in self.optimizer.param_groups]

    def add_to(self, state: PlainState, prefix: str) -> None:
        """Register them; with Adasum each rank has its own."""
        for (i, key), place in self.places.items():
            state.add(f"{prefix}.{i}.{key}", place.array(),
                      may_differ=getattr(self.optimizer, "is_adasum", False))

    def save(self) -> None:
        """Before a commit."""
        if self._groups() != self._shape:
            raise Unsupported(
                f"{type(self.optimizer).__name__} had groups of {self._shape} "
                f"parameters when State was made, and has {self._groups()} "
                "now; give it all groups first, and freeze parameters until "
                "they are trained")
        for i, parameter in enumerate(self._parameters(self.optimizer)):
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor):
                    self._place(i, key).save(value)

    def _place(self, i: int, key: str) -> _Place:
        if (i, key) not in self.places:
            raise Unsupported(
                f"{type(self.optimizer).__name__} has made the tensor {key!r} "
                f"of parameter {i} after State was made, and State can't "
                "register it any more; make the optimizer's state first")
        return self.places[i, key]

    def load(self) -> None:
        """After a restore set_record does it."""

    def record(self) -> typing.Any:
        """Learning rates and the like, and which state each parameter has."""
        groups = [{key: value for key, value in group.items()
                   if key != "params"}
                  for group in self.optimizer.param_groups]
        state = [{key: None if isinstance(value, torch.Tensor) else value
                  for key, value in
                  self.optimizer.state.get(parameter, {}).items()}
                 for parameter in self._parameters(self.optimizer)]
        return groups, state

    def set_record(self, record: typing.Any) -> None:
        """The other way: the state has the registered tensors."""
        groups, state = record
        for group, saved in zip(self.optimizer.param_groups, groups):
            group.update(saved)
        for i, parameter in enumerate(self._parameters(self.optimizer)):
            self.optimizer.state.pop(parameter, None)
            if state[i]:
                self.optimizer.state[parameter] = {
                    key: self.places[i, key].tensor()
                    if (i, key) in self.places else value
                    for key, value in state[i].items()}


# ------------------------------------------------------------------ State

class State(KeptState):
    """What an elastic program keeps: models, optimizers, schedulers and other
    objects with a state_dict, and counters, which are its attributes.

        state = regroup.torch.State(model=model, optimizer=optimizer, step=0)

        @regroup.run
        def train(state):
            while state.step < 100:
                ...
                state.step += 1
                state.commit()

    Before run, once in a process. Rank 0's of the first generation is the one
    from which all begin, and a commit has rank 0's counters. Each rank keeps
    its own generators of random numbers unless random is False; a newcomer's
    are seeded with what no other rank has.
    """

    def handler_of(self, value: typing.Any) -> typing.Any:
        """Modules and optimizers."""
        if isinstance(value, torch.nn.Module):
            return _Model(value)
        if isinstance(value, torch.optim.Optimizer):
            return _Optimizer(value)
        return None

    def generators(self) -> typing.Any:
        """Torch's as well."""
        gpu = torch.cuda.is_initialized()
        return (torch.get_rng_state().numpy(), super().generators(),
                torch.cuda.get_rng_state().numpy() if gpu else None)

    def set_generators(self, saved: typing.Any) -> None:
        """The other way."""
        torch.set_rng_state(torch.from_numpy(saved[0]))
        super().set_generators(saved[1])
        if saved[2] is not None and torch.cuda.is_available():
            torch.cuda.set_rng_state(torch.from_numpy(saved[2]))

    def seed_generators(self, seed: int) -> None:
        """Torch's as well."""
        torch.manual_seed(seed)
        super().seed_generators(seed)
