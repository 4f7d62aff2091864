"""Objects and counters as registered memory, for a framework that says how.

Arrays are registered where they are, or have a place that commits bring them
to. All else, such as learning rates and counters, is pickled into a record.
"""

from __future__ import annotations

import os
import pickle
import random
import sys
import typing
import zlib

from ._context import Context, current, init
from ._errors import Invalid, Unsupported
from ._state import State as PlainState

Result = typing.TypeVar("Result")
_RECORD_BYTES = 1 << 16
_HEAD = 8  # bytes before a record, with its length
_KEPT_STEPS = 4  # one of the last three commits, or the one that was begun


class Recorded:
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


def _whole(blob: bytes) -> bytes:
    if len(blob) + _HEAD > _RECORD_BYTES:
        raise Unsupported(
            f"what State has to record takes {len(blob)} bytes, more than "
            f"{_RECORD_BYTES - _HEAD}; register large arrays with add")
    return len(blob).to_bytes(_HEAD, "little") + blob


def _length(record: memoryview) -> int:
    return int.from_bytes(record[:_HEAD], "little")


class KeptState:
    """What an elastic program keeps: objects and counters, which are its
    attributes. A framework's State says which objects, and how."""

    def handler_of(self, value: typing.Any) -> typing.Any:
        """How an object of the framework is kept; None: it is none."""
        raise NotImplementedError

    def generators(self) -> typing.Any:
        """The state of generators of random numbers, of this rank."""
        numpy = sys.modules.get("numpy")
        return [random.getstate(),
                None if numpy is None else numpy.random.get_state()]

    def set_generators(self, saved: typing.Any) -> None:
        """The other way."""
        random.setstate(saved[0])
        if saved[1] is not None and "numpy" in sys.modules:
            sys.modules["numpy"].random.set_state(saved[1])

    def seed_generators(self, seed: int) -> None:
        """As a program does; seed has 32 bits."""
        random.seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)

    def __init__(self, *, context: Context | None = None,
                 random: bool = True,  # pylint: disable=redefined-outer-name
                 **objects: typing.Any) -> None:
        set_ = super().__setattr__
        set_("context", context or current() or init(elastic=True))
        set_("plain", self.context.state())
        if self.plain.keeper is not None:
            raise Invalid("this process has a State already; give that one "
                          "all models, optimizers and counters")
        self.plain.keeper = self
        set_("_random", random)
        set_("_handlers", {})
        set_("_values", {})
        for name, value in objects.items():
            if hasattr(type(self), name):
                raise Invalid(f"State has something else called {name!r}; "
                              "give it another name")
            handler = self._handler(name, value)
            self._values[name] = value
            if handler is not None:
                self._handlers[name] = handler
                handler.add_to(self.plain, name)
        set_("_record", memoryview(bytearray(_RECORD_BYTES)))
        set_("_drawn", {})  # this rank's generators, by steps
        self.plain.add("record", self._record, constant=True)
        self._note(self.plain.step)
        self.plain.on_save(self._save)
        self.plain.on_reset(self._restore)

    def _handler(self, name: str, value: typing.Any) -> typing.Any:
        """None: it is a counter."""
        found = self.handler_of(value)
        if found is not None:
            return found
        if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
            return Recorded(value)
        if callable(value):
            raise Invalid(f"State can't keep {name}, which is {value!r:.60}; "
                          "give models, optimizers, what has a state_dict, or "
                          "values that can be pickled")
        return None

    # -------------------------------------------------------- attributes

    def __getattr__(self, name: str) -> typing.Any:
        values = self.__dict__.get("_values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"State has no {name!r}; name it when State is "
                             "made")

    def __reduce__(self) -> typing.Any:
        raise TypeError("State belongs to its process: copy or pickle what it "
                        "keeps instead, such as its model's state_dict()")

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __setattr__(self, name: str, value: typing.Any) -> None:
        if name not in self._values or name in self._handlers:
            raise Invalid(f"State keeps no counter {name!r}; name it when "
                          "State is made")
        self._values[name] = value

    # ------------------------------------------------------------ record

    def _note(self, step: int) -> int:
        """Bring all to registered memory; the bytes of its record."""
        for handler in self._handlers.values():
            handler.save()
        generators = self.generators() if self._random else None
        whole = _whole(pickle.dumps((
            {name: handler.record()
             for name, handler in self._handlers.items()},
            {name: value for name, value in self._values.items()
             if name not in self._handlers}, generators)))
        self._record[:len(whole)] = whole
        self._drawn.pop(step, None)
        self._drawn[step] = generators
        if len(self._drawn) > _KEPT_STEPS:
            del self._drawn[next(iter(self._drawn))]
        return len(whole)

    def _save(self) -> None:
        """A commit takes a slice of the record from each rank, so all have
        rank 0's."""
        self._note(self.plain.step + 1)
        world = self.context.world
        world.broadcast(self._record[:_HEAD])
        end = _HEAD + _length(self._record)
        world.broadcast(self._record[:end])
        self._record[end:] = bytes(_RECORD_BYTES - end)

    def _restore(self) -> None:
        blob = self._record[_HEAD:_HEAD + _length(self._record)]
        records, counters, generators = pickle.loads(blob)
        for name, handler in self._handlers.items():
            handler.load()
            handler.set_record(records[name])
        self._values.update(counters)
        if generators is not None:
            self._draw_on(generators, blob)

    def _draw_on(self, generators: typing.Any, blob: memoryview) -> None:
        """A rank that was there has its own generators again. A new rank 0
        takes over those of rank 0 before; any other newcomer seeds its own."""
        mine = self._drawn.get(self.plain.step)
        rank = self.context.rank
        if mine is None and rank > 0:
            self.seed_generators(zlib.crc32(blob, rank))
        else:
            self.set_generators(mine or generators)

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
        self.plain.save(directory, keep=keep)

    def load(self, path: typing.Union[str, os.PathLike, None] = None
             ) -> int | None:
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
        return self.plain.run(function)
