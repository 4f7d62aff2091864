"""Models, optimizers and counters as registered memory.

A tensor of a model or an optimizer is registered where it is. What a program
may rebind (Adam's state, which its first step makes; what load_state_dict
puts there) is brought back to the registered memory by each commit. All else,
such as learning rates, schedulers and counters, is pickled into a record.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import sys
import typing

import torch

from .._context import Context, current, init
from .._errors import Invalid, Unsupported
from .._state import State as PlainState
from ._group import as_moved, dense

Result = typing.TypeVar("Result")
_RECORD_BYTES = 1 << 16


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

    def array(self) -> torch.Tensor:
        """As State.add takes it."""
        return as_moved(dense(self.memory))

    def save(self, tensor: torch.Tensor) -> None:
        """Bring what the program has to the registered memory, and the tensor
        too where that is possible."""
        if tensor.data_ptr() == self.memory.data_ptr():
            return
        self.memory.copy_(tensor.detach())
        if _is_plain(tensor.detach()):
            tensor.data = self.memory

    def load(self, tensor: torch.Tensor) -> None:
        """The other way."""
        if tensor.data_ptr() != self.memory.data_ptr():
            tensor.detach().copy_(self.memory)


# ---------------------------------------------------------------- objects

class _Model:
    """A module's parameters and buffers, by their names."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.places = {name: _Place(tensor)
                       for name, tensor in self._tensors()}

    def _tensors(self) -> typing.Iterator[typing.Tuple[str, torch.Tensor]]:
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
            self.places[name].save(tensor)

    def load(self) -> None:
        """After a restore."""
        for name, tensor in self._tensors():
            self.places[name].load(tensor)

    def record(self) -> None:
        """Nothing more."""

    def set_record(self, _: typing.Any) -> None:
        """Nothing more."""


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
        self.places: typing.Dict[typing.Tuple[int, str], _Place] = {}
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
                    ) -> typing.List[torch.nn.Parameter]:
        return [one for group in optimizer.param_groups
                for one in group["params"]]

    def add_to(self, state: PlainState, prefix: str) -> None:
        """Register them; with Adasum each rank has its own."""
        for (i, key), place in self.places.items():
            state.add(f"{prefix}.{i}.{key}", place.array(),
                      may_differ=getattr(self.optimizer, "is_adasum", False))

    def save(self) -> None:
        """Before a commit."""
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
                    key: self.places[i, key].memory
                    if (i, key) in self.places else value
                    for key, value in state[i].items()}


class _Recorded:
    """An object with state_dict and load_state_dict, such as a scheduler."""

    def __init__(self, held: typing.Any) -> None:
        self._held = held

    def add_to(self, state: PlainState, prefix: str) -> None:
        """It is in the record."""

    def save(self) -> None:
        """It is in the record."""

    def load(self) -> None:
        """It is in the record."""

    def record(self) -> typing.Any:
        """Its state."""
        return self._held.state_dict()

    def set_record(self, record: typing.Any) -> None:
        """The other way."""
        self._held.load_state_dict(record)


def _handler(name: str, value: typing.Any) -> typing.Any:
    """How State keeps an object; None: it is a counter."""
    if isinstance(value, torch.nn.Module):
        return _Model(value)
    if isinstance(value, torch.optim.Optimizer):
        return _Optimizer(value)
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return _Recorded(value)
    if callable(value):
        raise Invalid(f"State can't keep {name}, which is {value!r:.60}; give "
                      "models, optimizers, what has a state_dict, or values "
                      "that can be pickled")
    return None


# ------------------------------------------------------------------ random

def _random_state() -> typing.List[typing.Any]:
    """The generators of torch, Python and numpy."""
    numpy = sys.modules.get("numpy")
    return [torch.get_rng_state().numpy().tobytes(), random.getstate(),
            None if numpy is None else numpy.random.get_state()]


def _set_random_state(saved: typing.List[typing.Any]) -> None:
    torch.set_rng_state(torch.frombuffer(bytearray(saved[0]),
                                         dtype=torch.uint8))
    random.setstate(saved[1])
    if saved[2] is not None and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(saved[2])


# ------------------------------------------------------------------ State

class State:
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
    from which all begin. Generators of random numbers are kept by each rank
    unless random is False; a newcomer gets those of another rank.
    """

    def __init__(self, *, context: typing.Optional[Context] = None,
                 random: bool = True,  # pylint: disable=redefined-outer-name
                 **objects: typing.Any) -> None:
        set_ = super().__setattr__
        set_("context", context or current() or init(elastic=True))
        set_("plain", self.context.state())
        set_("_random", random)
        set_("_handlers", {})
        set_("_values", {})
        for name, value in objects.items():
            if hasattr(State, name):
                raise Invalid(f"State has something else called {name!r}; "
                              "give it another name")
            handler = _handler(name, value)
            self._values[name] = value
            if handler is not None:
                self._handlers[name] = handler
                handler.add_to(self.plain, name)
        set_("_record", torch.zeros(_RECORD_BYTES, dtype=torch.uint8))
        self.plain.add("record", self._record, may_differ=True)
        self._save()
        self.plain.on_reset(self._restore)

    # -------------------------------------------------------- attributes

    def __getattr__(self, name: str) -> typing.Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"State has no {name!r}; name it when State is "
                             "made")

    def __setattr__(self, name: str, value: typing.Any) -> None:
        if name not in self._values or name in self._handlers:
            raise Invalid(f"State keeps no counter {name!r}; name it when "
                          "State is made")
        self._values[name] = value

    # ------------------------------------------------------------ record

    def _save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        blob = pickle.dumps((
            {name: handler.record()
             for name, handler in self._handlers.items()},
            {name: value for name, value in self._values.items()
             if name not in self._handlers},
            _random_state() if self._random else None))
        if len(blob) + 8 > len(self._record):
            raise Unsupported(
                f"what State has to record takes {len(blob)} bytes, more than "
                f"{len(self._record) - 8}; register large arrays with add")
        whole = len(blob).to_bytes(8, "little") + blob
        self._record[:len(whole)] = torch.frombuffer(bytearray(whole),
                                                     dtype=torch.uint8)

    def _restore(self) -> None:
        whole = self._record.numpy().tobytes()
        records, counters, generators = pickle.loads(
            whole[8:8 + int.from_bytes(whole[:8], "little")])
        for name, handler in self._handlers.items():
            handler.load()
            handler.set_record(records[name])
        self._values.update(counters)
        if generators is not None:
            _set_random_state(generators)

    def _begin(self) -> None:
        """Before the first commit all have what rank 0 has, but its
        generators."""
        if self.plain.step:
            return
        mine = _random_state()
        world = self.context.world
        for handler in self._handlers.values():
            for place in getattr(handler, "places", {}).values():
                world.broadcast(place.array())
        world.broadcast(self._record)
        self._restore()
        _set_random_state(mine)

    # ------------------------------------------------------------- steps

    @property
    def steps(self) -> int:
        """Steps ended; goes back with the memory on a restore."""
        return self.plain.step

    def add(self, name: str, array: typing.Any, **options: typing.Any
            ) -> typing.Any:
        """Register one more array, as regroup.State does."""
        return self.plain.add(name, array, **options)

    def commit(self) -> None:
        """End the step and save all, on all ranks or on none."""
        self._save()
        self.plain.commit()

    def step_end(self) -> None:
        """End the step without saving it."""
        self.plain.step_end()

    def stop(self) -> None:
        """End the job at the step that is under way."""
        self.plain.stop()

    def save(self, directory: typing.Union[str, os.PathLike, None] = None, *,
             keep: int = 0) -> None:
        """commit, and the commit becomes a checkpoint."""
        self._save()
        self.plain.save(directory, keep=keep)

    def load(self, path: typing.Union[str, os.PathLike, None] = None
             ) -> typing.Optional[int]:
        """Fill all from the newest checkpoint, before run; its step, or None.
        """
        found = self.plain.load(path)
        if found is not None:
            self._restore()
        return found

    def on_commit(self, function: typing.Callable[[int], object]) -> None:
        """Call a function with the number of each step that counts."""
        self.plain.on_commit(function)

    def on_reset(self, function: typing.Callable[[], object]) -> None:
        """Call a function in every generation, before the training function.
        """
        self.plain.on_reset(function)

    def run(self, function: typing.Callable[[], Result]) -> Result:
        """Run a training function elastically; regroup.run does it."""
        def from_the_top() -> Result:
            self._begin()
            return function()
        return self.plain.run(from_the_top)
