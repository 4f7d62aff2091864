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
import typing

from ..._context import current
from ..._errors import Invalid, Mismatch
from ..._sets import Set

_WAITS, _POLLS, _JOINED = range(3)
Start = typing.Callable[[], typing.Callable[[], typing.Any]]


class Operation:
    """One that was asked for."""

    def __init__(self, name: str, start: Start) -> None:
        self.name = name
        self.start = start
        self.finish: typing.Optional[typing.Callable[[], typing.Any]] = None
        self.error: typing.Optional[Exception] = None

    @property
    def has_started(self) -> bool:
        """Whether a round has started it."""
        return self.finish is not None or self.error is not None

    def result(self) -> typing.Any:
        """Wait for it."""
        if self.error is not None:
            raise self.error
        assert self.finish is not None
        return self.finish()


class Queue:
    """What the members of a set have started, and not yet agreed on."""

    def __init__(self, rounds: Set) -> None:
        self._rounds = rounds
        self._waiting: typing.Dict[str, Operation] = {}
        context = current()
        assert context is not None
        context.on_leave.append(self._waiting.clear)

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
        """Take part in one round; whether it has started."""
        if not operation.has_started:
            self._round(_POLLS)
        return operation.has_started

    def join(self) -> None:
        """Take part in rounds until all members have joined."""
        while not self._round(_JOINED):
            pass

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

    def _agree(self, mine: typing.List[str], kinds: typing.List[int]) -> None:
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

    def _start(self, names: typing.List[str]) -> None:
        for name in names:
            operation = self._waiting.pop(name)
            try:
                operation.finish = operation.start()
            except Exception as error:  # pylint: disable=broad-except
                operation.error = error
