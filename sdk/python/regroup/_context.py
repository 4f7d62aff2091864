"""A process's place in the job: init, finalize, ranks, memory, sets."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import math
import os
import sys
import threading
import typing
import weakref
from ctypes import c_int, c_size_t, c_void_p

from . import _abi, _mpi, _stacks
from ._abi import Memory, Op, Status, lib
from ._buffers import Array, Buffer, look_writable
from ._errors import (HostsChanged, Invalid, RegroupError, Unsupported,
                      check)
from ._numbers import integer, integers, milliseconds, text
from ._sets import Rule, Set, color_of
from ._state import State, need_runnable
from ._wait import Operation, call_waiting


class SetInfo(typing.NamedTuple):
    """A set as Context.sets lists it."""

    id: int
    name: str
    size: int
    rank: int  # -1: not a member


class DeviceInfo(typing.NamedTuple):
    """The device that Context.device_open has opened."""

    device: int  # among those that are visible, from 0
    name: str
    bus: str  # where it is: "0000:81:00.0"
    driver: int  # the CUDA version that the driver is for: 13000 is 13.0
    nccl: int  # 22809 is 2.28.9
    free_bytes: int  # of its memory, now
    total_bytes: int


def _name(given: str | None) -> bytes | None:
    return None if given is None else text("a set's name", given)


class Block:
    """Memory of the library as numpy sees it; what holds it lives as long."""

    def __init__(self, address: int, bytes_: int, held: object = None) -> None:
        self._held = held
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "shape": (bytes_,),
            "data": (address, False)}


class Registered:
    """An array that Context.register has registered: until close, the end of
    a with block over this, or finalize. Until then its context holds it."""

    def __init__(self, context: Context, found: Buffer) -> None:
        check(lib.rg_register(context.handle, found.address,
                              found.count * found.item))
        self.array: Array = found.array
        self._context = context
        self._address = found.address
        context.registered[found.address] = found.hold

    def __enter__(self) -> Array:
        return self.array

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the array memory of its own again. A second call does
        nothing."""
        if self._address in self._context.registered:
            check(lib.rg_unregister(self._context.handle, self._address))
            del self._context.registered[self._address]


class Context:
    """What regroup.init returns. As a context manager it is finalized at the
    end of the with block; else at the end of the process."""

    def __init__(self, handle: int, is_elastic: bool) -> None:
        self._stored: int | None = handle
        self._on_break: typing.Any = None  # what C calls
        self._is_elastic = is_elastic
        self._failed = 0  # the code of a rank that an exception ends
        self._blocks = 0  # of its memory that an array or a Reducer still uses
        self._state: State | None = None
        self.on_leave: list[typing.Callable[[], object]] = []
        self.is_open = True
        self._is_forked = False
        self.held: set[Operation] = set()  # with their buffers
        self.dropped: set[Operation] = set()  # those without a request
        self.registered: dict[int, object] = {}  # what holds it, by address
        self._reaping = threading.RLock()  # guards what reap does
        self._groups = threading.local()
        self._sets: dict[int, Set] = {}  # by handle, until destroyed
        self._rules: list[Rule] = []  # called in every generation
        self._why = "this call came after finalize; make it before"
        self._world = Set(self, lib.rg_world(handle))
        atexit.register(self._end)
        os.register_at_fork(after_in_child=self._forked)

    def need_open(self) -> None:
        """Raise Invalid after finalize, and in a forked child."""
        if not self.is_open:
            raise Invalid(self._why)

    @property
    def is_elastic(self) -> bool:
        """Whether workers may come and go."""
        return self._is_elastic

    @property
    def handle(self) -> int:
        """The rg_ctx, for other C code."""
        self.need_open()
        return typing.cast(int, self._stored)

    def __enter__(self) -> Context:
        return self

    def __exit__(self, _: object, error: object, _trace: object) -> None:
        """After resume, a block left by an exception has not done its work:
        finalize would wait for the other ranks, and they for it."""
        is_resumed = self._state is not None and self._state.is_resumed
        if is_resumed and isinstance(error, SystemExit):
            code = error.code
            self._failed = code if isinstance(code, int) else int(bool(code))
        elif is_resumed and not isinstance(error, (HostsChanged, type(None))):
            self._failed = 1
        if not self._failed:
            self.finalize()

    def finalize(self) -> None:
        """Leave Regroup; local. The last one of this process ends requests in
        flight. A second call does nothing.

        While arrays of `alloc` are in use the library itself is left only with
        the last of them, or with the process.
        """
        if not self.is_open:
            return
        if self._state is not None:
            self._state.destroy()  # Invalid inside of run
        self.is_open = False
        if not self._blocks:
            self._leave()

    def _leave(self) -> None:
        handle, self._stored = self._stored, None
        _opened.remove(self)
        atexit.unregister(self._end)
        self.reap()
        if _mpi.is_loaded():
            _mpi.keep([operation.hold for operation in self.held])
        check(lib.rg_finalize(handle))
        self.registered.clear()
        _left.append(self)
        if not _has_world():
            for context in _left:
                context.reap()
                context.held.clear()
            _left.clear()

    def need_own(self) -> None:
        """Raise Invalid in a forked child."""
        if self._is_forked:
            raise Invalid(self._why)

    def _forked(self) -> None:
        """A child has neither the Regroup thread nor shared memory."""
        self.is_open, self._stored, self._is_forked = False, None, True
        self._why = ("this process was forked from a worker and is none; make "
                     "the call in the worker, or start a program instead")
        atexit.unregister(self._end)

    def _end(self) -> None:
        """At the end of the process arrays are no longer used."""
        if self._failed:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self._failed)  # MPI_Finalize would wait as well
        self._blocks = 0
        if self.is_open:
            self.finalize()
        else:
            self._leave()

    def reap(self) -> None:
        """Give requests back that were dropped and have completed."""
        if not self.dropped:
            return
        with self._reaping:
            for operation in list(self.dropped):
                if operation.wait(0):
                    self.dropped.discard(operation)

    def on_break(self, function: typing.Callable[[int], object]) -> None:
        """Call a function on a thread of its own, with the generation's
        number, when the generation that this worker computes in has broken:
        to abort communicators of the program's own. Before run."""
        need_runnable("function of on_break", function)
        self._on_break = _abi.BreakFn(
            lambda _context, generation, _argument: function(generation))
        check(lib.rg_on_break(self.handle, self._on_break, None))

    def world_wait(self) -> bool:
        """Wait for the first world of an elastic program, before State.run:
        every worker makes this call, or none does.

        True: this worker is in it, with a rank and collectives, so that rank
        0 can download what all need and broadcast it. False: the job runs
        already, and this worker joins it; skip that part, and go on to
        State.run. When the first world breaks before its first commit, all
        of its workers are killed and started again together.
        """
        return call_waiting(lib.rg_world_wait, self.handle,
                            also=Status.JOINING) == Status.OK

    # ----------------------------------------------------------- device

    def device_open(self, *, max_ctas: int = 0,
                    init_timeout: float | None = None,
                    abort_timeout: float | None = None,
                    in_flight: int = 0) -> None:
        """Use a GPU: the current one of this thread, else number `slot` of
        those that are visible. Before State.run, by all workers or by none;
        arrays of the device may be passed from then on. Times are in seconds;
        regroup_cuda.h tells what the options are for."""
        params = _abi.DeviceParams(
            max_ctas=integer("max_ctas", c_int, max_ctas),
            in_flight=integer("in_flight", c_int, in_flight),
            init_timeout_ms=0 if init_timeout is None
            else milliseconds("init_timeout", init_timeout),
            abort_timeout_ms=0 if abort_timeout is None
            else milliseconds("abort_timeout", abort_timeout))
        check(lib.rg_device_open(self.handle, params))

    def device_info(self) -> DeviceInfo:
        """The open device, and its driver and NCCL."""
        found = _abi.DeviceInfo()
        check(lib.rg_device_info_get(self.handle, ctypes.byref(found)))
        return DeviceInfo(found.device, found.name.decode(errors="replace"),
                          found.bus.decode(errors="replace"), found.driver,
                          found.nccl, found.free_bytes, found.total_bytes)

    def device_wait(self) -> None:
        """Wait until what this worker has started on the device has ended,
        and is right as far as this worker knows."""
        call_waiting(lib.rg_device_wait, self.handle, -1)

    # ---------------------------------------------------------- queries

    @property
    def rank(self) -> int:
        """Rank in the world; -1 in an elastic program before run, or
        world_wait. After it the last one stays."""
        return lib.rg_rank(self.handle)

    @property
    def size(self) -> int:
        """Size of the world; -1 in an elastic program before run, or
        world_wait."""
        return lib.rg_size(self.handle)

    @property
    def local_rank(self) -> int:
        """Rank among the workers of this host."""
        return lib.rg_local_rank(self.handle)

    @property
    def local_size(self) -> int:
        """Workers on this host."""
        return lib.rg_local_size(self.handle)

    @property
    def host_index(self) -> int:
        """The number of this host."""
        return lib.rg_host_index(self.handle)

    @property
    def host_count(self) -> int:
        """The number of hosts."""
        return lib.rg_host_count(self.handle)

    @property
    def slot(self) -> int:
        """The slot on this host, kept for life: choose a GPU by it."""
        return lib.rg_slot(self.handle)

    @property
    def host(self) -> str:
        """The name of this worker's host."""
        return lib.rg_host(self.handle).decode(errors="replace")

    @property
    def generation(self) -> int:
        """The current generation, from 1; 0 before the first."""
        return lib.rg_generation(self.handle)

    # ------------------------------------------------------------- sets

    @property
    def world(self) -> Set:
        """The set of all workers of the current generation."""
        return self._world

    def set(self, ranks: typing.Iterable[int], name: str | None = None, *,
            keep: bool = False, memory: Memory = Memory.HOST) -> Set:
        """Make a set of world ranks, in the caller's order.

        Collective over the world, members or not, with equal arguments. It
        ends with a lost member, or, one to keep, shrinks. In an elastic
        program call it inside of the training function, with a name: by that
        and these ranks the set is found again, whichever workers have them
        by then; or before run, on all workers alike, where it
        is declared, and made when the first generation begins.

        memory=DEVICE: its communicator of NCCL is made with it, and again in
        each generation, and else by its first operation on a GPU.
        """
        wanted = integers("a rank of the set", c_int, ranks)
        return self._make(lib.rg_set_create, wanted, len(wanted), name=name,
                          keep=keep, memory=memory)

    def set_by(self, color: typing.Callable[[], int | None],
               name: str | None = None, *,
               memory: Memory = Memory.HOST) -> Set:
        """Make sets by a rule: workers of equal colour are one set, and each
        gets its own; None: none. Collective over the world. color() may ask
        for rank, host and slot, and is called again in every generation; the
        set never ends. If color() raises here, no set is made. Before run it
        is declared, as with set."""
        rule = Rule(color, name)
        if self._is_elastic:  # else no other generation comes
            self._rules.append(rule)
        made = self._make_by(rule, memory)
        former = made.follow(rule)
        if former is not None:  # the set was found by its name
            former.check()
        try:
            rule.check()
        except BaseException:
            if former is None:
                made.destroy()
            raise
        return made

    def _make_by(self, rule: Rule, memory: Memory) -> Set:
        """If it fails, the exception of a colour function is the cause: this
        one, or the one by which the set was made in this generation."""
        try:
            return self._make(lib.rg_set_create_by, rule.callback, None,
                              name=rule.name, memory=memory)
        except RegroupError:
            rule.check()
            for one in list(self._sets.values()):
                if one.has_rule(rule.name):
                    one.check_rule()
            raise

    def split(self, color: int | None, key: int = 0, name: str | None = None,
              *, keep: bool = False, memory: Memory = Memory.HOST) -> Set:
        """The same once: workers of equal colour are one set, in the order of
        their keys, and of their ranks if keys are equal."""
        return self._make(lib.rg_set_split, color_of(color),
                          integer("the key", c_int, key), name=name,
                          keep=keep, memory=memory)

    def set_of(self, comm: _mpi.Comm, name: str | None = None, *,
               memory: Memory = Memory.HOST) -> Set | None:
        """Make a set of the processes of a communicator of mpi4py, in its
        order. Collective over that communicator alone; COMM_NULL gets None at
        once, and all communicators of a split may have one name."""
        found = c_void_p()
        params = _abi.SetParams(name=_name(name), memory=memory)
        call_waiting(_mpi.library_of(comm).rg_set_create_mpi, self.handle,
                     _mpi.handle_of(comm), params, ctypes.byref(found))
        return None if found.value is None else self._set_at(found.value)

    def _make(self, function: typing.Callable[..., int], *arguments: object,
              name: str | None, keep: bool = False,
              memory: Memory = Memory.HOST) -> Set:
        found = c_void_p()
        params = _abi.SetParams(name=_name(name), keep=int(keep),
                                memory=memory)
        call_waiting(function, self.handle, *arguments, params,
                     ctypes.byref(found))
        return self._set_at(typing.cast(int, found.value))

    def _set_at(self, handle: int) -> Set:
        """The set of a handle; a set found again by its name is the same
        object."""
        if handle not in self._sets:
            self._sets[handle] = Set(self, handle)
        return self._sets[handle]

    def forget(self, handle: int) -> None:
        """A set was given back, and its handle may be another's now."""
        self._sets.pop(handle, None)

    def sets(self) -> list[SetInfo]:
        """The sets that live here, the world first."""
        room = 16
        while True:
            infos, n = (_abi.SetInfo * room)(), c_int()
            check(lib.rg_set_list(self.handle, infos, room, ctypes.byref(n)))
            if n.value <= room:
                return [SetInfo(info.id, info.name.decode(errors="replace"),
                                info.size, info.rank)
                        for info in infos[:n.value]]
            room = n.value

    @contextlib.contextmanager
    def group(self) -> typing.Iterator[None]:
        """Collectives started in the with block start together at its end, or
        none does, as when an exception leaves it or a call in it was wrong;
        small allreduces become one. Wait for them after it."""
        check(lib.rg_group_start(self.handle))
        self._groups.is_open, self._groups.refused = True, None
        try:
            yield
            if self._groups.refused is not None:
                raise Invalid("the group was not started: "
                              f"{self._groups.refused}")
        except BaseException:
            lib.rg_barrier_start(lib.rg_world(self.handle), None, None)
            lib.rg_group_end(self.handle)  # which none of them outlives
            raise
        else:
            check(lib.rg_group_end(self.handle))
        finally:
            self._groups.is_open = False

    def refuse_in_group(self, what: str) -> None:
        """Raise Invalid in a group, which is then not started: for a form that
        waits, before it starts anything."""
        if not self.is_grouping():
            return
        self._groups.refused = (f"{what} waits, and can't be in a group; use "
                                f"start_{what} there, and wait after the "
                                "with block")
        raise Invalid(self._groups.refused)

    def is_grouping(self) -> bool:
        """Whether this thread is in a group."""
        return getattr(self._groups, "is_open", False)

    # ----------------------------------------------------------- memory

    def alloc(self, shape: int | typing.Sequence[int],
              dtype: typing.Any) -> Array:
        """A numpy array of zeros, which collectives use between the workers of
        one host without copies. Each makes a shared segment: allocate few and
        large ones."""
        import numpy  # pylint: disable=import-outside-toplevel
        kind = numpy.dtype(dtype)
        axes = shape if isinstance(shape, typing.Sequence) else (shape,)
        sizes = [integer("a size of the shape", c_size_t, axis)
                 for axis in axes]
        bytes_ = integer("the bytes of the array", c_size_t,
                         kind.itemsize * math.prod(sizes))
        found = c_void_p()
        check(lib.rg_alloc(self.handle, bytes_, None, ctypes.byref(found)))
        address = typing.cast(int, found.value)
        block = Block(address, bytes_)
        self.lend(block, lib.rg_free, self._stored, address)
        return numpy.asarray(block).view(kind).reshape(shape)

    def register(self, array: Array) -> Registered:
        """Let collectives use an array of the host's memory between the
        workers of one host without copies, as they do `alloc`'s, wherever in
        it they begin. Its pages become shared memory: register few and large
        ones, that no other thread uses meanwhile."""
        found = look_writable("register", array)
        if found.memory != Memory.HOST:
            raise Unsupported("register got an array of the device's memory; "
                              "collectives use that where it is")
        return Registered(self, found)

    def lend(self, holder: object, give_back: typing.Callable[..., object],
             *arguments: object) -> None:
        """The library is not left while the holder lives; then its memory is
        given back."""
        self._blocks += 1
        weakref.finalize(holder, self._take_back, give_back,
                         *arguments).atexit = False

    def _take_back(self, give_back: typing.Callable[..., object],
                   *arguments: object) -> None:
        if self._stored is None:
            return
        give_back(*arguments)
        self._blocks -= 1
        if not self.is_open and not self._blocks:
            self._leave()

    # ---------------------------------------------------------- elastic

    def state(self) -> State:
        """The registered memory of this process; there is one per context."""
        self.need_open()
        if self._state is None:
            self._state = State(self)
        return self._state


# Those that were finalized. What they have started goes on, and may have passed
# its deadline, as long as other parts of the process are in the world.
_left: list[Context] = []


def _has_world() -> bool:
    found = c_void_p()
    if lib.rg_init(None, ctypes.byref(found)) != Status.OK:
        return False
    return lib.rg_finalize(found) == Status.OK


_opened: list[Context] = []  # one for each call of init that has not ended


def current() -> Context | None:
    """The newest context of this process that is open."""
    return next((context for context in reversed(_opened[:])
                 if context.is_open), None)


def metric(name: str, value: float, op: Op = Op.AVG) -> None:
    """State.metric of this process's state."""
    context = current()
    if context is None:
        raise Invalid("metric needs a context; call regroup.init first")
    context.state().metric(name, value, op)


def init(comm: _mpi.Comm | None = None, *, session: str | None = None,
         elastic: bool | None = None) -> Context:
    """Join the job that started this process, or be a world of one.

    comm: a communicator of mpi4py that becomes the world; without one it is
    MPI_COMM_WORLD under mpirun, and what the agent says under `regroup run`.
    session: in place of comm, the name of one of MPI's process sets, such as
    "mpi://WORLD"; MPI need not be initialised (MPI 4).
    elastic: the world forms in run, and workers may come and go; else it forms
    here, and the first failure ends the job.

    A program and modules inside it may each call init, from any thread: they
    share one world, and the last finalize leaves it. A module leaves elastic
    out, and takes what there is.
    """
    before = current()
    if elastic is None and before is None:
        elastic = False
    found = c_void_p()
    params = (None if elastic is None
              else _abi.Params(elastic=int(elastic)))
    if session is not None:
        if comm is not None:
            raise Invalid("init takes comm or session, not both")
        call_waiting(_mpi.library_here().rg_init_session, session.encode(),
                     params, ctypes.byref(found))
    elif comm is None:
        _mpi.join_launcher()
        _stacks.offer()
        call_waiting(lib.rg_init, params, ctypes.byref(found))
    else:
        call_waiting(_mpi.library_of(comm).rg_init_mpi, _mpi.handle_of(comm),
                     params, ctypes.byref(found))
    if elastic is None:
        elastic = before is not None and before.is_elastic
    context = Context(typing.cast(int, found.value), elastic)
    _opened.append(context)
    return context
