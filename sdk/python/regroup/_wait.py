"""Waiting so that Ctrl-C works: requests are waited for in slices, and calls
that have none end the process as they would end a C program.

A slice ends in the interpreter, which then runs the handlers of signals that
came meanwhile; KeyboardInterrupt leaves the request in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import threading
import time
import typing

from ._abi import Status, lib
from ._errors import InProgress, Invalid, check, error_of

if typing.TYPE_CHECKING:
    from ._context import Context

SLICE_MS = 100
Result = typing.TypeVar("Result")


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def ctrl_c(now: typing.Any, then: typing.Any) -> typing.Iterator[None]:
    """Where SIGINT's handler is `now`, make it `then` for a while."""
    if not _is_main_thread() or signal.getsignal(signal.SIGINT) is not now:
        yield
        return
    signal.signal(signal.SIGINT, then)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, now)


def ctrl_c_ends() -> contextlib.AbstractContextManager[None]:
    """Around a call that waits inside the library: Ctrl-C ends the process."""
    return ctrl_c(signal.default_int_handler, signal.SIG_DFL)


def ctrl_c_raises() -> contextlib.AbstractContextManager[None]:
    """Around the program's own functions below such a call."""
    return ctrl_c(signal.SIG_DFL, signal.default_int_handler)


class Request(typing.Generic[Result]):
    """An operation that was started.

    Its buffers belong to Regroup until it has completed: don't write into
    them, and don't read results. A request that is dropped goes on, and its
    buffers live as long as it does. Any thread may wait for it.
    """

    __slots__ = ("_handle", "_hold", "_finish", "_result", "_error", "_lock",
                 "_context", "__weakref__")

    def __init__(self, context: Context, handle: ctypes.c_void_p,
                 hold: object, finish: typing.Callable[[], Result]) -> None:
        self._context = context
        self._handle = handle
        self._hold = hold
        self._finish = finish
        self._result: Result | None = None
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def _look(self, timeout_ms: int) -> bool:
        """Wait no longer than that; has it completed, well or not?"""
        with self._lock:
            if not self._handle:
                return True
            status = lib.rg_wait(ctypes.byref(self._handle), timeout_ms)
            if status == Status.IN_PROGRESS:
                return False
            self._hold = None
            if status == Status.OK:
                self._result = self._finish()
            else:
                self._error = error_of(status)
            return True

    def test(self) -> bool:
        """Whether it has completed, well or not; `wait` then says how."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> Result:
        """Wait, and return the operation's result.

        timeout is in seconds, None waits for ever. Raises InProgress (also a
        TimeoutError) when it has passed, the request still in flight, and else
        what the operation ended with. Waiting again gives the same again.
        """
        if self._context.is_grouping() and self._handle:
            raise Invalid("an operation of a group starts when the group ends;"
                          " wait for it behind the with block")
        if timeout is None:
            while not self._look(SLICE_MS):
                pass
        elif not self._wait_until(time.monotonic() + timeout):
            raise InProgress(f"not finished after {timeout} s; wait again, "
                             "its buffers are still in flight")
        if self._error is not None:
            raise self._error
        return typing.cast(Result, self._result)

    def _wait_until(self, deadline: float) -> bool:
        while True:
            left_ms = max(0, int((deadline - time.monotonic()) * 1000))
            if self._look(min(left_ms, SLICE_MS)):
                return True
            if left_ms == 0:
                return False

    def __await__(self) -> typing.Generator[typing.Any, None, Result]:
        """In a coroutine: wait on a thread of the loop's, and let it run."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(None, self.wait).__await__()

    def __del__(self) -> None:
        if self._handle:
            self._context.dropped.append((self._handle, self._hold))


def wait_all(requests: typing.Iterable[Request],
             timeout: float | None = None) -> list:
    """Wait for all of them: their results in order, or the first error."""
    deadline = None if timeout is None else time.monotonic() + timeout
    first, results = None, []
    for request in requests:
        try:
            results.append(request.wait(
                None if deadline is None
                else max(0.0, deadline - time.monotonic())))
        except InProgress:
            raise
        except Exception as error:  # pylint: disable=broad-except
            first = first or error
    if first is not None:
        raise first
    return results


def call_waiting(function: typing.Callable[..., int],
                 *arguments: object) -> None:
    """A call that waits inside the library for others; errors are raised."""
    with ctrl_c_ends():
        status = function(*arguments)
    check(status)
