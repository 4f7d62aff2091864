"""Waiting so that Ctrl-C works: requests are waited for in slices, and calls
that have none end the process as they would end a C program.

A slice ends in the interpreter, which then runs the handlers of signals that
came meanwhile; KeyboardInterrupt leaves the request in flight.

A handler may raise after any call, so nothing that must survive is only in a
local variable there: buffers are held before an operation starts, and its
status is stored by the C code that asks for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import threading
import time
import typing
from ctypes import c_int, c_void_p

from ._abi import Status, TrainFn, lib
from ._errors import InProgress, Invalid, check, error_of

if typing.TYPE_CHECKING:
    from ._context import Context

SLICE_MS = 100
Result = typing.TypeVar("Result")


_ends: list[int] = []  # an entry for each ctrl_c_ends that changed the handler


@contextlib.contextmanager
def ctrl_c(now: typing.Any, then: typing.Any, *ends: int
           ) -> typing.Iterator[None]:
    """Where SIGINT's handler is `now`, make it `then` for a while."""
    is_changed = signal.getsignal(signal.SIGINT) is now
    try:
        if is_changed:
            signal.signal(signal.SIGINT, then)
    except ValueError:  # the interpreter's first thread alone may do that
        is_changed = False
    if not is_changed:
        yield
        return
    _ends.extend(ends)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, now)
        del _ends[len(_ends) - len(ends):]


def ctrl_c_ends() -> contextlib.AbstractContextManager[None]:
    """Around a call that waits inside the library: Ctrl-C ends the process."""
    return ctrl_c(signal.default_int_handler, signal.SIG_DFL, 1)


def ctrl_c_raises() -> contextlib.AbstractContextManager[None]:
    """Around the program's own functions below such a call, unless Ctrl-C
    ended the process before that, too."""
    return ctrl_c(signal.SIG_DFL if _ends else object(),
                  signal.default_int_handler)


def callback(answers: typing.Generator[int, object, None]) -> typing.Any:
    """A function for C, of two pointers, that returns a generator's next
    answer; the first that is yielded is not used.

    The interpreter runs the handlers of signals that came meanwhile at the
    start of a function, outside its try, and if they raised, C would get no
    answer. A generator goes on inside its try. Its send takes one argument:
    the second is in a register that is not read.
    """
    next(answers)
    return ctypes.cast(ctypes.CFUNCTYPE(c_int, c_void_p)(answers.send),
                       TrainFn)


class Operation:
    """What was started: the context holds it, and it holds its buffers, until
    it has completed. One that passed its deadline is held until finalize."""

    __slots__ = ("handle", "hold", "_held", "_told")

    def __init__(self, held: set[Operation], hold: object) -> None:
        self.handle = c_void_p()
        self.hold = hold
        self._held = held
        self._told: list[tuple[int, bytes]] = [(Status.OK, b"")]

    def wait(self, timeout_ms: int) -> bool:
        """Wait no longer than that; has it completed, well or not?

        From rg_wait to the list the interpreter runs C code only, no handler
        of a signal: with the handle gone the status is there.
        """
        if self.handle:
            self._told[:] = zip(
                map(lib.rg_wait, (ctypes.byref(self.handle),), (timeout_ms,)),
                iter(lib.rg_last_error, None))
        if self.handle:
            return False
        self.let_go()
        return True

    def let_go(self) -> None:
        """Give its buffers back to the program, unless Regroup keeps them."""
        if self._told[0][0] != Status.ERR_TIMEOUT:
            self._held.discard(self)
            self.hold = None

    def error(self) -> BaseException | None:
        """Its outcome."""
        status, sentence = self._told[0]
        return None if status == Status.OK else error_of(status, sentence)


class Operations:
    """Those of several requests, for the one request of a group."""

    def __init__(self, requests: list[Request]) -> None:
        self._requests = requests

    @property
    def handle(self) -> bool:
        """Whether any is in flight."""
        return any(one.is_in_flight() for one in self._requests)

    def wait(self, timeout_ms: int) -> bool:
        """Wait for each no longer than that; have all completed?"""
        return all([one.look(timeout_ms) for one in self._requests])

    def let_go(self) -> None:
        """Each request does it."""

    def error(self) -> BaseException | None:
        """The first one's."""
        return next((one.error() for one in self._requests if one.error()),
                    None)


class Request(typing.Generic[Result]):
    """An operation that was started.

    Its buffers belong to Regroup until it has completed: don't write into
    them, and don't read results. A request that is dropped goes on, and its
    buffers live as long as it does. Any thread may wait for it.
    """

    __slots__ = ("_operation", "_context", "_finish", "_answer", "_over",
                 "_lock", "__weakref__")

    def __init__(self, context: Context, operation: typing.Any,
                 finish: typing.Callable[[], Result]) -> None:
        self._operation = operation
        self._context = context
        self._finish = finish
        self._answer: tuple[Result | None, BaseException | None] | None = None
        self._over: threading.Event | None = None  # for other threads
        self._lock = threading.Lock()  # of the waiting thread

    def is_in_flight(self) -> bool:
        """Whether Regroup has its buffers, as far as this thread knows."""
        return bool(self._operation.handle)

    def error(self) -> BaseException | None:
        """What ended it, once it has completed."""
        return self._answer[1] if self._answer else None

    def look(self, timeout_ms: int) -> bool:
        """Wait no longer than that; has it completed, well or not?"""
        if self._answer is None:
            self._context.need_own()
            if self._lock.locked():
                self._look_on(timeout_ms)
            else:
                with self._lock:
                    self._look_for(timeout_ms)
        return self._answer is not None

    def _look_for(self, timeout_ms: int) -> None:
        if self._answer is None and self._operation.wait(timeout_ms):
            error = self._operation.error()
            self._answer = (None if error else self._finish(), error)
            if self._over is not None:
                self._over.set()

    def _look_on(self, timeout_ms: int) -> None:
        """While another thread waits: any thread could take the lock."""
        over = self._over = self._over or threading.Event()
        if self._answer is None:
            over.wait(timeout_ms / 1000)

    def test(self) -> bool:
        """Whether it has completed, well or not; `wait` then says how."""
        return self.look(0)

    def _need_started(self) -> None:
        if self._context.is_grouping() and self._operation.handle:
            raise Invalid("an operation of a group starts when the group ends;"
                          " wait for it after the with block")

    def wait(self, timeout: float | None = None) -> Result:
        """Wait, and return the operation's result.

        timeout is in seconds, None waits forever. Raises InProgress (also a
        TimeoutError) when it has passed, with the request still in flight, and
        otherwise the operation's error. Waiting again gives the same again.
        """
        self._need_started()
        if timeout is None:
            while not self.look(SLICE_MS):
                pass
        elif not self._wait_until(time.monotonic() + timeout):
            raise InProgress(f"not finished after {timeout} s; wait again, "
                             "its buffers are still in flight")
        result, error = typing.cast(tuple, self._answer)
        if error is not None:
            raise error
        return typing.cast(Result, result)

    def _wait_until(self, deadline: float) -> bool:
        while True:
            left_s = max(0, deadline - time.monotonic())
            left_ms = int(min(left_s * 1000, SLICE_MS))
            if self.look(left_ms):
                return True
            if left_ms == 0:
                return False

    def __await__(self) -> typing.Generator[typing.Any, None, Result]:
        """In a coroutine: wait on a thread of its own, and let the loop run.
        A coroutine that is cancelled leaves the request in flight."""
        self._need_started()  # here: the other thread has no group
        if not self.test():
            loop = asyncio.get_running_loop()
            over = loop.create_future()
            threading.Thread(target=self._tell, args=(loop, over),
                             daemon=True).start()
            yield from over
        return self.wait()

    def _tell(self, loop: asyncio.AbstractEventLoop,
              over: asyncio.Future[None]) -> None:
        """Wait until the operation has completed, or is no longer awaited."""
        while not over.cancelled() and not self.look(SLICE_MS):
            pass
        with contextlib.suppress(RuntimeError):  # the loop may be closed
            loop.call_soon_threadsafe(
                lambda: over.done() or over.set_result(None))

    def __del__(self) -> None:
        if not hasattr(self, "_lock"):  # a handler raised in __init__
            return
        if self._operation.handle:
            self._context.dropped.add(self._operation)
        elif self._answer is None:  # it did not start, or was not polled
            self._operation.let_go()


def wait_all(requests: typing.Iterable[Request],
             timeout: float | None = None) -> list:
    """Wait for all of them: their results in order, or the first error."""
    started = list(requests)  # what a generator yields, it may start
    deadline = None if timeout is None else time.monotonic() + timeout
    first, results = None, []
    for request in started:
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


def call_waiting(function: typing.Callable[..., int], *arguments: object,
                 also: Status = Status.OK) -> Status:
    """A call that waits inside the library for others, and returns OK, or a
    status as good; errors are raised."""
    with ctrl_c_ends():
        status = function(*arguments)
    if status != also:
        check(status)
    return Status(status)
