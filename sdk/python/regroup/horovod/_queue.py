"""Operations by their names: ranks may start them in different orders, as
Horovod allows, and a Set needs one order.

What was started waits until some rank needs a result. Then the members tell
each other what they have started, in a round on a set of its own, and start
what all of them have, in the order of the first of them. Where all have the
same in the same order, which is the rule, a round is one small allgather.
"""

from __future__ import annotations

import array
import hashlib
import itertools
import typing

from .._errors import Invalid, Mismatch
from .._sets import Set
from .._wait import Request

_WAITS, _POLLS, _JOINED = range(3)


class Started(typing.NamedTuple):
    """What runs, and the function that waits for it and has its result."""

    requests: typing.Sequence[Request]
    finish: typing.Callable[[], typing.Any]


Start = typing.Callable[[], Started]


class Operation:
    """One that was asked for."""

    def __init__(self, name: str, start: Start) -> None:
        self.name = name
        self.start = start
        self.started: Started | None = None
        self.error: Exception | None = None

    @property
    def has_started(self) -> bool:
        """Whether a round has started it."""
        return self.started is not None or self.error is not None

    def is_over(self) -> bool:
        """Whether it has ended, well or not; its result is in place then."""
        if self.started is None:
            return self.error is not None
        if not all([one.test() for one in self.started.requests]):
            return False
        try:
            made = self.started.finish()
            self.started = Started([], lambda: made)
        except Exception as error:  # pylint: disable=broad-except
            self.error = error
        return True

    def result(self) -> typing.Any:
        """Wait for it."""
        if self.error is not None:
            raise self.error
        assert self.started is not None
        return self.started.finish()


#: What synchronize and poll know, by its number.
handles: dict[int, tuple["Queue", Operation]] = {}


class Queue:
    """What the members of a set have started, and not yet agreed on. Each
    generation has its own, and so has the count of operations without names:
    members that are new have counted none."""

    def __init__(self, rounds: Set) -> None:
        self._rounds = rounds
        self._waiting: dict[str, Operation] = {}
        self._unnamed: dict[str, itertools.count] = {}

    def name_of(self, kind: str) -> str:
        """The name of the next operation that was given none."""
        counter = self._unnamed.setdefault(kind, itertools.count(1))
        return f"noname.{next(counter)}"

    def add(self, name: str, start: Start) -> Operation:
        """Start an operation when all members have it."""
        if name in self._waiting:
            raise Invalid(f"an operation named {name!r} has been started and "
                          "is not finished; give each another name, or wait "
                          "for the first")
        self._waiting[name] = Operation(name, start)
        return self._waiting[name]

    def need(self, operation: Operation) -> None:
        """Take part in rounds until it has started."""
        while not operation.has_started:
            self._round(_WAITS)

    def poll(self, operation: Operation) -> bool:
        """Take part in one round if it has not started; whether it is over."""
        if not operation.has_started:
            self._round(_POLLS)
        return operation.is_over()

    def join(self) -> None:
        """Take part in rounds until all members have joined; they may have
        made different numbers of operations."""
        while not self._round(_JOINED):
            pass
        self._unnamed.clear()

    def _round(self, how: int) -> bool:
        """Returns whether all members have joined."""
        mine = list(self._waiting)
        digest = hashlib.blake2b(repr(mine).encode(), digest_size=8).digest()
        rows = self._rounds.allgather(array.array(
            "Q", [how, int.from_bytes(digest, "little")]))
        kinds, digests = rows[::2], rows[1::2]
        active = {d for kind, d in zip(kinds, digests) if kind != _JOINED}
        if not active:
            return True
        if len(active) == 1 and how != _JOINED:
            self._start(mine)
        elif len(active) > 1:
            self._agree(mine, list(kinds))
        return False

    def _agree(self, mine: list[str], kinds: list[int]) -> None:
        lists = self._rounds.allgather_object(mine)
        active = {rank: names for rank, names in enumerate(lists)
                  if kinds[rank] != _JOINED}
        common = [name for name in next(iter(active.values()))
                  if all(name in names for names in active.values())]
        if not common and all(kind == _WAITS for kind in kinds):
            raise Mismatch("no rank can go on: " + ", ".join(
                f"rank {rank} has started {', '.join(names[:3]) or 'nothing'}"
                for rank, names in active.items())
                + "; start operations of equal names on all ranks")
        if kinds[self._rounds.rank] != _JOINED:
            self._start(common)

    def _start(self, names: list[str]) -> None:
        for name in names:
            operation = self._waiting.pop(name)
            try:
                operation.started = operation.start()
            except Exception as error:  # pylint: disable=broad-except
                operation.error = error
