"""Horovod's elastic loop, for the State of any framework."""

from __future__ import annotations

import functools
import typing

from .._kept import KeptState
from ._basics import _made


class KeptByRun:
    """A State by Horovod's names. commit ends a step and saves it on all ranks
    or on none."""

    def __init__(self, kept: KeptState) -> None:
        self.__dict__["_reset_callbacks"] = []
        self.__dict__["kept"] = kept

    def __getattr__(self, name: str) -> typing.Any:
        return getattr(self.__dict__["kept"], name)

    def __setattr__(self, name: str, value: typing.Any) -> None:
        """A name that was not given when the state was made is kept by this
        worker alone."""
        if name in self.kept:
            setattr(self.kept, name, value)
        else:
            self.__dict__[name] = value

    def commit(self) -> None:
        """Save what is there; a change of hosts leaves the function here."""
        self.kept.commit()

    def check_host_updates(self) -> None:
        """A change of hosts leaves the function here; nothing is saved."""
        self.kept.step_end()

    def save(self) -> None:
        """Nothing: commit saves; run restores, and makes all ranks equal."""

    restore = sync = save

    def on_reset(self) -> None:
        """Call the functions of register_reset_callbacks."""
        for function in self._reset_callbacks:
            function()

    def register_reset_callbacks(
            self, callbacks: typing.Iterable[typing.Callable[[], object]]
            ) -> None:
        """Functions to call after each change, such as for learning rates."""
        self._reset_callbacks.extend(callbacks)


def run(func: typing.Callable) -> typing.Callable:
    """Decorator: a training function whose first argument is a state is called
    again after each change."""
    @functools.wraps(func)
    def runs(state: KeptByRun, *arguments: typing.Any,
             **named: typing.Any) -> typing.Any:
        seen: list[int] = []

        def once() -> typing.Any:
            _made()
            if seen:
                state.on_reset()
            seen.append(1)
            return func(state, *arguments, **named)
        return state.kept.run(once)
    return runs
