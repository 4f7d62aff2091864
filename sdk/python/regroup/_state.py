"""The elastic loop: registered memory, commits, checkpoints, run, the sampler.

The one rule for a training function: let exceptions of Regroup pass. It is
called again from its top, with registered memory as in the commit from which
all go on.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
import typing
from ctypes import c_int, c_size_t, c_uint64, c_void_p

from . import _abi
from ._abi import Advice, Kind, Op, Status, lib
from ._buffers import Array, Buffer, look_writable
from ._errors import (AskedToLeave, Invalid, NotFound, RegroupError, check,
                      told_by)
from ._numbers import integer, path, text
from ._wait import call_waiting, callback, ctrl_c_ends, ctrl_c_raises

if typing.TYPE_CHECKING:
    from ._context import Context

Result = typing.TypeVar("Result")


def _unrun(what: str) -> Invalid:
    return Invalid(f"the {what} is a coroutine or a generator, whose body a "
                   "call does not run; pass one that does its work when it is "
                   "called")


def need_runnable(what: str, function: typing.Callable) -> None:
    """Refuse a function whose body no call runs."""
    if inspect.iscoroutinefunction(function) or \
            inspect.isgeneratorfunction(function) or \
            inspect.isasyncgenfunction(function):
        raise _unrun(what)


def _need_run(what: str, result: object) -> None:
    """Refuse the result of a call that has not run the function's body: only
    then can a wrapper around a generator be recognised."""
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
    elif not inspect.isasyncgen(result):
        return
    raise _unrun(what)


class _Body:
    """The program's function as the C side calls it: statuses go out, any
    other exception is kept for the caller of run, even one of the handler of a
    signal that came while the library waited."""

    def __init__(self, call: typing.Callable[[], object],
                 on_leave: typing.Sequence[typing.Callable[[], object]] = ()
                 ) -> None:
        self._call = call
        self._on_leave = on_leave  # what follows when a change ends the call
        self.result: object = None
        self.error: BaseException | None = None
        self.callback = callback(self._calls())

    def _calls(self) -> typing.Generator[int, object, None]:
        status: int = Status.OK
        while True:
            try:
                while True:
                    yield status
                    status = self._status()
            except GeneratorExit:
                return
            except BaseException as error:  # pylint: disable=broad-except
                self.error, status = error, Status.ERR_INVALID

    def _status(self) -> int:
        self.error = None
        try:
            with ctrl_c_raises():
                self.result = self._call()
            _need_run("training function", self.result)
        except RuntimeError as error:  # also a RegroupError
            cause = told_by(error)
            if isinstance(cause, AskedToLeave) and cause is not error:
                raise cause from error
            if cause is None or \
                    cause.advice not in (Advice.RESYNC, Advice.RESTORE):
                raise
            status = cause.status
        else:
            return Status.OK
        for function in self._on_leave:  # the error and its frames are gone
            function()
        return status

    def judge(self, status: int) -> object:
        """What run returns or raises when the loop has ended with a status."""
        if status != Status.OK and self.error is not None:
            raise self.error
        check(status)
        return self.result


class Parts(typing.Sequence[bytearray]):
    """The parts of a local buffer in a commit or a checkpoint, by rank, while
    the function that redistributes them runs: len(parts) ranks have made it,
    and parts[i] is rank i's. If the number of ranks is the same now, only this
    rank's is sure to be there; NotFound otherwise."""

    def __init__(self, handle: int) -> None:
        self._handle: int | None = handle

    def _open(self) -> int:
        if self._handle is None:
            raise Invalid("parts are there while redistribute runs; copy what "
                          "is needed later")
        return self._handle

    def close(self) -> None:
        """The function has returned."""
        self._handle = None

    def __len__(self) -> int:
        return lib.rg_parts_count(self._open())

    def bytes_of(self, i: int) -> int:
        """The size of rank i's."""
        found = c_size_t()
        check(lib.rg_parts_bytes(self._open(), integer("a rank", c_int, i),
                                 ctypes.byref(found)))
        return found.value

    def __getitem__(self, i: typing.Any) -> typing.Any:
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"there are {len(self)} parts")
        rank = i % len(self)
        part = bytearray(self.bytes_of(rank))
        if part:
            place = (ctypes.c_char * len(part)).from_buffer(part)
            check(lib.rg_parts_read(self._open(), rank, 0, len(part), place))
        return part


class State:
    """The memory that a step changes: parameters, optimizer state, counters.
    Equal on all ranks at the end of each step. From Context.state; used by one
    thread at a time."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._buffers: dict[str, Buffer] = {}
        self._resets: list[typing.Callable[[], object]] = []
        self._on_reset: _Body | None = None
        self._commits: list[typing.Callable[[int], object]] = []
        self._on_commit: typing.Any = None  # what C calls
        self.keeper: object | None = None  # the State of a framework
        self._saves: list[typing.Callable[[], object]] = []
        self._on_save: typing.Any = None
        self._dealers: list[typing.Any] = []  # what C calls, too
        self._raised: BaseException | None = None  # in what C has called
        self._is_running = False
        self.is_resumed = False
        self._stored: int | None = None
        found = c_void_p()
        check(lib.rg_state_create(context.handle, None, ctypes.byref(found)))
        self._stored = found.value

    def need_open(self) -> None:
        """Raise Invalid after destroy and finalize."""
        self.context.need_open()
        if self._stored is None:
            raise Invalid("this state was destroyed; there is one per process")

    @property
    def handle(self) -> int:
        """The rg_state, for other C code."""
        self.need_open()
        return typing.cast(int, self._stored)

    def destroy(self) -> None:
        """Give registered arrays back; finalize does that. Not inside of run.
        """
        if self._is_running:
            raise Invalid("the training function is running, and its state "
                          "can't go; let it return first")
        lib.rg_state_destroy(self._stored)
        self._stored = None
        self._buffers.clear()

    # ------------------------------------------------------- registering

    def add(self, name: str, array: Array, *, kind: Kind = Kind.REPLICATED,
            replicas: int = 0, align: int = 0, may_differ: bool = False,
            constant: bool = False, local: bool = False,
            redistribute: typing.Callable[[Parts], Array] | None = None
            ) -> Array:
        """Register an array before run, and return it. It is held until
        finalize: change it in place, never bind the name to another array.

        Of a SHARDED array each rank holds the part that `slice` names;
        replicas of each part lie on other hosts. may_differ: ranks may hold
        other bytes, such as running statistics. constant: no step need change
        it. Both only say that no warning is wanted.

        local: the array is this rank's own (kind LOCAL), of any size, and goes
        with its rank. If the number of ranks or the size has changed since the
        commit, redistribute is called with the Parts and returns the array
        that is registered from then on (array tells it); without it that is
        Refused.
        """
        buffer = look_writable(f"add of {name!r}", array)
        if local:
            kind = Kind.LOCAL
        params = _abi.BufferParams(
            kind=kind, replicas=integer(f"replicas of {name!r}", c_int,
                                        replicas),
            align=integer(f"align of {name!r}", c_size_t, align),
            may_differ=int(bool(may_differ)), constant=int(bool(constant)),
            memory=buffer.memory,
            redistribute=self._dealer(name, redistribute))
        check(lib.rg_state_add(self.handle, _name(name), buffer.address,
                               buffer.count * buffer.item, params))
        self._buffers[name] = buffer
        return array

    def _dealer(self, name: str, function: typing.Callable[[Parts], Array] |
                None) -> typing.Any:
        if function is None:
            return None
        need_runnable("redistribute", function)

        def deal(_state: int, handle: int, _argument: int) -> int:
            parts = Parts(handle)
            try:
                self.resize(name, function(parts))
            except BaseException as error:  # pylint: disable=broad-except
                self._raised = self._raised or error
                return error.status if isinstance(error, RegroupError) \
                    else Status.ERR_INVALID
            finally:
                parts.close()
            return Status.OK
        self._dealers.append(_abi.RedistributeFn(deal))
        return ctypes.cast(self._dealers[-1], c_void_p)

    def resize(self, name: str, array: Array) -> Array:
        """Register another array in place of a local one, of any size, from
        the next commit on; between two commits. Returns it."""
        buffer = look_writable(f"resize of {name!r}", array)
        check(lib.rg_state_resize(self.handle, _name(name), buffer.address,
                                  buffer.count * buffer.item))
        self._buffers[name] = buffer
        return array

    def array(self, name: str) -> Array:
        """The registered array: not the one of add if a local one was
        redistributed or resized."""
        return self._buffers[name].array

    def slice(self, name: str) -> slice:
        """Which elements of a registered array, flattened, this rank holds:
        all of a REPLICATED one. Inside of run."""
        begin, end = c_size_t(), c_size_t()
        check(lib.rg_state_slice(self.handle, _name(name),
                                 ctypes.byref(begin), ctypes.byref(end)))
        item = self._buffers[name].item
        if begin.value % item or end.value % item:
            raise Invalid(f"the shard of {name!r} cuts an element of {item} "
                          "bytes in two; register it with align a multiple of "
                          "that")
        return slice(begin.value // item, end.value // item)

    def on_reset(self, function: typing.Callable[[], object]) -> None:
        """Call a function in every generation, once registered memory is
        right and before the training function."""
        need_runnable("function of on_reset", function)
        self._resets.append(function)
        if self._on_reset is None:
            self._on_reset = _Body(self._reset)
            check(lib.rg_state_on_reset(self.handle, self._on_reset.callback,
                                        None))

    def _reset(self) -> None:
        for function in self._resets:
            _need_run("function of on_reset", function())

    def on_save(self, function: typing.Callable[[], object]) -> None:
        """Call a function before registered memory is saved, by commit, save,
        or a step_end that saves: it copies there what lies elsewhere, and may
        call collectives, as all ranks call it. Before run. Its exceptions
        leave that call, and nothing is saved."""
        need_runnable("function of on_save", function)
        self._saves.append(function)
        if self._on_save is None:
            self._on_save = _abi.SaveFn(self._bring)
            check(lib.rg_state_on_save(self.handle, self._on_save, None))

    def _bring(self, _state: int, _argument: int) -> int:
        try:
            for function in self._saves:
                _need_run("function of on_save", function())
        except BaseException as error:  # pylint: disable=broad-except
            self._raised = self._raised or error
            return error.status if isinstance(error, RegroupError) \
                else Status.ERR_INVALID
        return Status.OK

    def on_commit(self, function: typing.Callable[[int], object]) -> None:
        """Call a function with the number of each step that counts, once and
        in order, on every rank; before run. It may print and write files, but
        must not call collectives. commit or run raises its exceptions."""
        need_runnable("function of on_commit", function)
        self._commits.append(function)
        if self._on_commit is None:
            self._on_commit = _abi.CommitFn(self._tell)
            check(lib.rg_state_on_commit(self.handle, self._on_commit, None))

    def _tell(self, _state: int, step: int, _argument: int) -> None:
        try:
            for function in self._commits:
                _need_run("function of on_commit", function(step))
        except BaseException as error:  # pylint: disable=broad-except
            self._raised = self._raised or error

    def _end_step(self, call: typing.Any, *arguments: object) -> None:
        """End a step; an exception raised meanwhile precedes its status."""
        try:
            call_waiting(call, self.handle, *arguments)
        finally:
            self._raise_told()

    def _raise_told(self) -> None:
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised

    # ------------------------------------------------------------- steps

    @property
    def step(self) -> int:
        """Steps ended; goes back with the memory on a restore."""
        return lib.rg_state_step(self.handle)

    def commit(self) -> None:
        """End the step and save registered memory, on all ranks or on none;
        inside run or after resume. HostsChanged: it counts as well."""
        self._end_step(lib.rg_state_commit)

    def step_end(self) -> None:
        """End the step without saving it; inside run or after resume."""
        self._end_step(lib.rg_step_end)

    def metric(self, name: str, value: float, op: Op = Op.AVG) -> None:
        """A number of the step that is under way, such as its loss. The end of
        the step takes AVG, SUM, MIN or MAX over all ranks, which all give the
        same metrics in the same order, and the agent of rank 0 shows it
        (--metrics-csv, --metrics-tensorboard, --metrics)."""
        check(lib.rg_metric(self.handle, text("a metric's name", name),
                            float(value), Op(op)))

    def stop(self) -> None:
        """End the job at the step that is under way, from any rank: its end
        raises HostsChanged on all ranks, and run returns None."""
        check(lib.rg_stop(self.handle))

    # ------------------------------------------------------- checkpoints

    def save(self, directory: str | os.PathLike | None = None, *,
             keep: int = 0) -> None:
        """commit, and the commit becomes a checkpoint in a directory, by
        default in that of --checkpoint-dir; keep: how many stay there."""
        self._end_step(lib.rg_state_save, _path(directory),
                       _abi.SaveParams(keep=integer("keep", c_int, keep)))

    def load(self, path: str | os.PathLike | None = None) -> int | None:
        """Fill registered memory from the newest checkpoint, before run, on
        every rank. Returns its step, or None if there is none, and in a job
        that already runs: then run brings registered memory to its commit."""
        step = c_uint64()
        try:
            check(lib.rg_state_load(self.handle, _path(path),
                                    ctypes.byref(step)))
        except NotFound:
            return None
        return step.value

    def resume(self) -> int | None:
        """For ranks of `regroup run --mpi`, once and in place of run: fill
        registered memory with the newest commit of the launches before this
        one, or with the newest checkpoint, which is all that there is under
        mpirun alone. Returns its step, or None where
        nothing was committed. Then commit, step_end and save may be called
        outside of run; HostsChanged from them: it counts, and this launch
        ends."""
        step = c_uint64()
        found: int | None = None
        self.is_resumed = True
        try:
            call_waiting(lib.rg_state_resume, self.handle, ctypes.byref(step))
            found = step.value
        except NotFound:
            pass
        finally:
            self._raise_told()  # a NotFound of redistribute's among it
        return found

    @property
    def saved(self) -> int | None:
        """The step of the newest checkpoint that was published or loaded."""
        step = c_uint64()
        try:
            check(lib.rg_state_saved(self.handle, ctypes.byref(step)))
        except NotFound:
            return None
        return step.value

    # --------------------------------------------------------------- run

    def run(self, function: typing.Callable[[], Result]) -> Result:
        """Run a training function elastically, and return what it returned.

        It is called again from its top after every change of membership.
        HostsChanged and PeerLost that leave it are part of that; any other
        exception ends the loop and is raised here, and when it ends the
        process the others go on without this worker.
        """
        need_runnable("training function", function)

        def call() -> Result:
            self._raise_told()
            return function()
        body = _Body(call, self.context.on_leave)
        if self._on_reset is not None:
            self._on_reset.error = None
        handle, self._is_running = self.handle, True
        try:
            with ctrl_c_ends():
                status = lib.rg_run(handle, body.callback, None)
        finally:
            self._is_running = False
        self._raise_told()
        if self._on_reset is not None and self._on_reset.error is not None:
            body.error = self._on_reset.error
        return typing.cast(Result, body.judge(status))

    def generations(self) -> typing.Iterator[Generation]:
        """run as a loop of the program's own, once for each generation:

            for generation in state.generations():
                with generation:
                    train()

        What the with block does stands for run's function: HostsChanged and
        PeerLost leave it for the next generation, another exception ends the
        loop and passes. Without an exception the work is done, and the loop
        ends when all ranks have come so far. A loop that is left in another
        way, such as by break, leaves the job as an exception does.
        """
        status = c_int(Status.OK)
        self._is_running = True
        try:
            while self.next_turn(status):
                generation = Generation(self, status)
                yield generation
                if not generation.is_over:
                    raise Invalid("the loop over State.generations needs "
                                  "`with generation:` around its body")
        finally:
            self._is_running = False

    def next_turn(self, status: c_int) -> bool:
        """Another generation has begun; False: the loop is over, well."""
        if self._on_reset is not None:
            self._on_reset.error = None
        with ctrl_c_ends():
            has_begun = lib.rg_next(self.handle, ctypes.byref(status))
        self._raise_told()
        if self._on_reset is not None and self._on_reset.error is not None:
            raise self._on_reset.error
        if not has_begun:
            check(status.value)
        return bool(has_begun)


class Generation:
    """A turn of the loop over State.generations: a context manager."""

    def __init__(self, state: State, status: c_int) -> None:
        self._state = state
        self._status = status
        self.is_over = False

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, _: object, error: BaseException | None,
                 _trace: object) -> bool:
        self.is_over = True
        if error is None:
            return False
        cause = told_by(error)
        if cause is not None and \
                cause.advice in (Advice.RESYNC, Advice.RESTORE):
            self._status.value = cause.status
            for function in self._state.context.on_leave:
                function()
            return True
        self._end(Status.ERR_INVALID if cause is None else cause.status)
        if isinstance(cause, AskedToLeave) and cause is not error:
            raise cause from error
        return False

    def _end(self, status: Status) -> None:
        """The loop is over for this worker."""
        self._status.value = status if status.advice in (
            Advice.FIX, Advice.ABORT) else Status.ERR_INVALID
        with ctrl_c_ends():
            lib.rg_next(self._state.handle, ctypes.byref(self._status))


def _step(step: int) -> int:
    return integer("the step", c_uint64, step)


def _name(given: str) -> bytes:
    return text("a buffer's name", given)


def _path(given: str | os.PathLike | None) -> bytes | None:
    return None if given is None else path("the path", given)


def run(function: typing.Callable[..., Result]) -> typing.Callable[...,
                                                                   Result]:
    """Decorator: a training function whose first argument is a State runs in
    State.run when it is called."""
    need_runnable("training function", function)

    @functools.wraps(function)
    def runs(state: State, *arguments: object, **named: object) -> Result:
        return state.run(lambda: function(state, *arguments, **named))
    return runs


class Sampler:
    """Which samples belong to which step: the same for every size of the
    world, and every sample of an epoch exactly once.

    count: samples in the data set; batch: those of one step, over all ranks.
    With a state, what was taken is noted in the history.
    """

    def __init__(self, count: int, batch: int, *, seed: int = 0,
                 in_order: bool = False, state: State | None = None) -> None:
        self._stored: int | None = None
        self._state = state  # the C side notes there what is taken
        params = _abi.SamplerParams(
            count=integer("a sampler's count", c_uint64, count),
            batch=integer("a sampler's batch", c_uint64, batch),
            seed=integer("a sampler's seed", c_uint64, seed),
            in_order=int(in_order))
        found = c_void_p()
        check(lib.rg_sampler_create(None if state is None else state.handle,
                                    params, ctypes.byref(found)))
        self._stored = found.value

    def __del__(self) -> None:
        lib.rg_sampler_destroy(self._stored)

    @property
    def steps(self) -> int:
        """Steps in one epoch."""
        return lib.rg_sampler_steps(self._stored)

    def batch_size(self, step: int) -> int:
        """Samples of this step, over all ranks; the last one's are fewer."""
        return lib.rg_sampler_batch_size(self._stored, _step(step))

    def take(self, epoch: int, step: int, rank: int, size: int) -> list[int]:
        """The samples that a rank of a world of that size takes."""
        indices, n = ctypes.POINTER(c_uint64)(), c_uint64()
        if self._state is not None:
            self._state.need_open()
        check(lib.rg_sampler_take(
            self._stored, integer("the epoch", c_uint64, epoch), _step(step),
            integer("the rank", c_int, rank), integer("the size", c_int, size),
            ctypes.byref(indices), ctypes.byref(n)))
        return indices[:n.value]
