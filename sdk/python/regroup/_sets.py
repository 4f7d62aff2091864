"""Sets and the collectives on them.

Each collective comes twice: `start_allreduce` returns a Request at once,
`allreduce` waits for it. A result is a new array of the kind that was sent, or
`out`. Counts and parts are in rows, entries of the first dimension; an array
of any shape is sent whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import importlib
import itertools
import numbers
import operator
import pickle
import typing
from ctypes import c_int, c_uint64, c_void_p

from . import _abi, _fast, _mpi
from ._abi import Memory, Op, Type, lib
from ._buffers import (LEGACY_STREAM, Array, Buffer, Stream, look,
                       look_writable, need_rows, stream_of)
from ._errors import Invalid, check
from ._numbers import integer, integers, milliseconds
from ._wait import (SLICE_MS, Operation, Operations, Request, call_waiting,
                    callback)

if typing.TYPE_CHECKING:
    from ._context import Context

_P = typing.ParamSpec("_P")
_Result = typing.TypeVar("_Result")
Counts = typing.Sequence[int]


def _blocking(
        start: typing.Callable[typing.Concatenate[Set, _P], Request[_Result]]
) -> typing.Callable[typing.Concatenate[Set, _P], _Result]:
    """The same collective without start_ in its name, which waits."""
    @functools.wraps(start)
    def call(self: Set, *arguments: _P.args, **named: _P.kwargs) -> _Result:
        self._context.refuse_in_group(call.__name__)
        return start(self, *arguments, **named).wait()
    call.__name__ = start.__name__.removeprefix("start_")
    call.__qualname__ = f"Set.{call.__name__}"
    return call


#: What must be equal on all members: a number, a text, or a tuple of them.
Tag = typing.Union[float, str, tuple, None]


def _plain(tag: typing.Any) -> typing.Any:
    """Equal tags have equal names: what is a tuple, a text or a number of
    another library, such as torch.Size, has a name of its own."""
    if isinstance(tag, tuple):
        return tuple(map(_plain, tag))
    if isinstance(tag, str):
        return str.__str__(tag)
    try:
        return operator.index(tag)
    except TypeError:
        if not isinstance(tag, numbers.Real):
            raise
        return int(tag) if tag == int(tag) else float(tag)


def _number_of(what: str, tag: Tag) -> int:
    """A tag as C compares it. Numbers of 32 bits stand in its sentence."""
    if tag is None:
        return 0
    try:
        plain = _plain(tag)
    except (TypeError, ValueError, OverflowError):
        raise Invalid(f"the tag of {what} is {tag!r:.60}; give a name, a "
                      "number, or a tuple of them") from None
    if isinstance(plain, int):
        return integer(f"the tag of {what}", c_uint64, plain)
    digest = hashlib.blake2b(repr(plain).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


@functools.lru_cache(maxsize=1024)
def _number_of_shape(shape: tuple[int, ...]) -> int:
    """The tag if none was given: of arrays of one dimension, whose count
    says all, none."""
    return _number_of("an array", ("shape", shape)) \
        if len(shape) > 1 else 0


#: The compiled part of the package, or None.
fast = _fast.load(_number_of_shape)


def _params(what: str, root: int = 0, deadline: float | None = None,
            tag: Tag = None, prescale: float = 1.0, postscale: float = 1.0,
            like: Buffer | None = None) -> _abi.OpParams:
    if prescale == 0 or postscale == 0:
        raise Invalid(f"{what} got a scale of 0; scale by another number")
    return _abi.OpParams(  # where 0 is none
        root=integer(f"the root of {what}", c_int, root),
        prescale=0 if prescale == 1 else prescale,
        postscale=0 if postscale == 1 else postscale,
        timeout_ms=0 if deadline is None
        else milliseconds(f"the deadline of {what}", deadline),
        tag=_number_of_shape(like.shape) if tag is None and like is not None
        else _number_of(what, tag))


def _memory(found: list[Buffer], named: Memory | None) -> Memory:
    """Where an operation's arrays are; named, where they don't say."""
    if len({b.memory for b in found}) > 1:
        raise Invalid(f"{found[0].what} got an array in host memory and one "
                      "of the device; pass two of a kind")
    seen = found[0].memory if found else Memory.HOST
    if named is None:
        return seen
    if Memory(named) == Memory.HOST and seen == Memory.DEVICE:
        raise Invalid(f"{found[0].what} got an array of the device, and "
                      "memory=HOST; leave memory out")
    return Memory(named)


def _place(params: _abi.OpParams, buffers: object, stream: Stream,
           memory: Memory | None) -> None:
    """Where an operation's arrays are, and the stream that it goes into."""
    found = [b for b in (buffers if isinstance(buffers, tuple) else (buffers,))
             if isinstance(b, Buffer)]
    if _memory(found, memory) == Memory.HOST:
        if stream is not None:
            raise Invalid("a stream was named for an operation on host "
                          "memory; leave it out, or say memory=DEVICE")
        return
    into = stream_of(stream)
    if into is None:
        into = _common_stream(found)
    for buffer in found:
        if buffer.make_ready is not None:
            buffer.make_ready(into)
    params.memory = Memory.DEVICE
    params.stream = None if into == LEGACY_STREAM else into


def _common_stream(buffers: list[Buffer]) -> int:
    """The one in which all arrays of an operation are ready."""
    named = {b.stream for b in buffers if b.stream is not None}
    if len(named) > 1:
        raise Invalid(f"{buffers[0].what} got arrays of the device in "
                      "different streams; name the one to use with stream=")
    return named.pop() if named else LEGACY_STREAM


def _check_out(what: str, like: Buffer, out: Buffer, count: int) -> None:
    if out.type != like.type or out.count != count:
        raise Invalid(
            f"{what} makes {count} elements of {like.type.name}, and out has "
            f"{out.count} of {out.type.name}; pass an array of that many and "
            "of that type, or none")


def _result(what: str, like: Buffer, out: Array | None,
            shape: tuple[int, ...]) -> Buffer:
    """Where a result of that shape comes: out, or a new array."""
    if out is None:
        return look(what, like.new(shape))
    if isinstance(out, Op):
        raise Invalid(f"{what} got {out!s} in the place of out; write "
                      f"op=regroup.{out.name}")
    found = look_writable(what, out)
    _check_out(what, like, found, like.row * shape[0] if shape else 1)
    return found


def _counts(what: str, counts: Counts, n: int) -> list[int]:
    """Counts in rows, as integers of Python: those of numpy may be too small
    for their sums and products."""
    found = [integer(f"a count of {what}", c_uint64, count)
             for count in counts]
    if len(found) != n:
        raise Invalid(f"{what} got {len(found)} counts on a set of {n}; pass "
                      "one for each member")
    return found


def _elements(what: str, rows: list[int], row: int) -> ctypes.Array:
    """Counts in rows as counts in elements."""
    return integers(f"a count of {what} in elements", c_uint64,
                    [count * row for count in rows])


def _check_sum(what: str, array: Buffer, rows: list[int]) -> None:
    if sum(rows) != array.shape[0]:
        raise Invalid(f"{what} got an array of {array.shape[0]} rows and "
                      f"counts that add up to {sum(rows)}")


def _even(rows: int, n: int) -> list[int]:
    """Rows dealt to n members: the first get one more where they do not
    divide."""
    return [rows // n + (rank < rows % n) for rank in range(n)]


def _pickled(value: object) -> tuple[bytearray, Exception | None]:
    """An object's bytes: none, and the error, where it can't be pickled, by
    cloudpickle neither."""
    try:
        return bytearray(pickle.dumps(value)), None
    except Exception as error:  # pylint: disable=broad-except
        try:
            cloudpickle = importlib.import_module("cloudpickle")
            return bytearray(cloudpickle.dumps(value)), None
        except Exception:  # pylint: disable=broad-except
            return bytearray(), error


def _need_pickled(what: str, error: Exception | None,
                  counts: dict[int, int]) -> None:
    """All members fail together where one could not pickle its object."""
    if error is not None:
        raise error
    for rank, count in counts.items():
        if count == 0:
            raise Invalid(f"{what}: rank {rank} can't pickle its object, and "
                          "its error says why; pass one that can be pickled")


class Set:
    """A process set: an ordered subset of the world.

    Every collective is called by all its members, in the same order; its root
    is a rank in the set. Options: deadline, seconds after which an operation
    that has not completed is given up for all; prescale and postscale, by
    which a reduction multiplies before and after; tag, which must be equal on
    all members as the count must, such as a name. Without one, arrays of more
    than one dimension are compared by their shapes, where these must be equal:
    in allreduce, reduce, reduce_scatter, broadcast and allgather. Arrays of a
    GPU say that they are, and may name their stream; stream=, such as one of
    torch or cupy, or STREAM_NONE where they are ready now, is used instead of
    theirs. memory=DEVICE is for what does not say it, as a barrier.

    A set is made by Context.set, set_by and split. It is given back by
    `destroy`, by the end of a with block, or by finalize.
    """

    def __init__(self, context: Context, handle: int) -> None:
        self._context = context
        self._stored: int | None = handle
        self._rule: Rule | None = None

    def _need_made(self) -> int:
        self._context.need_open()
        if self._stored is None:
            raise Invalid("this set was destroyed; make another one")
        return self._stored

    @property
    def _handle(self) -> int:
        handle = self._need_made()
        self.check_rule()
        return handle

    @property
    def handle(self) -> int:
        """The rg_set, for other C code."""
        return self._handle

    @property
    def context(self) -> Context:
        """What it was made with."""
        return self._context

    def __enter__(self) -> Set:
        return self

    def __exit__(self, *_: object) -> None:
        if self._context.is_open and self._stored is not None:
            self.destroy()

    def __repr__(self) -> str:
        if self._stored is None or not self._context.is_open:
            return "<regroup.Set, gone>"
        return f"<regroup.Set {self.name}: rank {self.rank} of {self.size}>"

    # ---------------------------------------------------------- queries

    @property
    def rank(self) -> int:
        """My rank in the set; -1: not a member, or the set has ended."""
        return lib.rg_set_rank(self._handle)

    @property
    def size(self) -> int:
        """How many members it has."""
        return lib.rg_set_size(self._handle)

    @property
    def id(self) -> int:
        """Its number, equal on all ranks; the world's is 0."""
        return lib.rg_set_id(self._handle)

    @property
    def name(self) -> str:
        """Its name."""
        return lib.rg_set_name(self._handle).decode(errors="replace")

    def translate(self, ranks: typing.Iterable[int], to: Set) -> list[int]:
        """The ranks in another set of this set's members; -1: none there.
        Context.world translates from and to world ranks."""
        mine = integers("a rank to translate", c_int, ranks)
        theirs = (c_int * len(mine))()
        check(lib.rg_set_translate(self._handle, mine, len(mine), to._handle,
                                   theirs))
        return list(theirs)

    def comm(self, mpi: typing.Any) -> _mpi.Comm:
        """Make a communicator of the set's members, in its order, for calls of
        mpi4py; mpi is mpi4py.MPI. Collective over the set. The caller gives it
        back with Free."""
        made, view = _mpi.new_comm(mpi)
        call_waiting(_mpi.library_of(made).rg_set_mpi_comm, self._handle,
                     ctypes.byref(view))
        return made

    def follow(self, rule: Rule) -> Rule | None:
        """The C side makes it by this rule from now on; the result is the one
        by which it did before."""
        former, self._rule = self._rule, rule
        return former

    def has_rule(self, name: str | None) -> bool:
        """Whether it is made by a rule of that name; None names nothing."""
        return name is not None and self._rule is not None and \
            self._rule.name == name

    def check_rule(self) -> None:
        """Raise the exception of its colour function's last call."""
        if self._rule is not None:
            self._rule.check()

    def destroy(self) -> None:
        """Give the set back; local. No operation may be in flight on it."""
        handle = self._need_made()
        check(lib.rg_set_destroy(handle))
        self._stored = None
        self._context.forget(handle)

    def _start(self, function: typing.Callable[..., int],
               arguments: typing.Iterable[object], hold: object,
               finish: typing.Callable[[], typing.Any], stream: Stream = None,
               memory: Memory | None = None) -> Request:
        handle = self._handle
        arguments = tuple(arguments)
        _place(arguments[-1], hold,  # type: ignore[arg-type]
               stream, memory)
        self._context.reap()
        operation = Operation(self._context.held, (self, hold))
        request = Request(self._context, operation, finish)
        self._context.held.add(operation)  # before C has its buffers
        check(function(handle, *arguments,
                       ctypes.byref(operation.handle)))
        return request

    @property
    def _n(self) -> int:
        """How many members my arguments are for. If there are none, the C side
        says why, such as SetEnded; a root of -1 is never started."""
        size = self.size
        if size < 1:
            check(lib.rg_broadcast_start(
                self._handle, None, 0, Type.U8, _abi.OpParams(root=-1),
                ctypes.byref(c_void_p())))
        return size

    # ------------------------------------------------------- reductions

    def _quick(self, wait_ms: int, ctx: int, data: typing.Any,
               out: typing.Any, op: Op, prescale: float, postscale: float,
               deadline: float | None, tag: Tag, stream: Stream,
               memory: Memory | None) -> typing.Any:
        """An allreduce by the compiled part: a result if it has completed
        within wait_ms, else its Request; None: nothing was started, since
        something about the call is not plain."""
        context = self._context
        if fast is None or stream is not None or memory is not None or \
                self._rule is not None or context.dropped or \
                not context.is_open or (wait_ms or ctx) and \
                context.is_grouping() or prescale == 0 or postscale == 0:
            return None
        done = fast.allreduce(
            self, self._stored, ctx, context.held, op, prescale, postscale,
            0 if deadline is None
            else milliseconds("the deadline of allreduce", deadline),
            None if tag is None else _number_of("allreduce", tag), wait_ms,
            data, out)
        if type(done) is not fast.Operation:
            return done
        if not wait_ms and not done.handle:
            raise done.error()  # it did not start
        request = Request(context, done, lambda: done.result)
        return request.wait() if wait_ms else request

    def start_allreduce(self, data: Array, out: Array | None = None, *,
                        op: Op = Op.SUM, prescale: float = 1.0,
                        postscale: float = 1.0, deadline: float | None = None,
                        tag: Tag = None, stream: Stream = None,
                        memory: Memory | None = None) -> Request[Array]:
        """Reduce data over all members, element by element; everyone gets the
        result. out=data works in place."""
        started = self._quick(0, 0, data, out, op, prescale, postscale,
                              deadline, tag, stream, memory)
        if started is not None:
            return started
        what = "allreduce"
        sent = look(what, data)
        got = _result(what, sent, out, sent.shape)
        return self._start(
            lib.rg_allreduce_start,
            (sent.address, got.address, sent.count, sent.type, op,
             _params(what, 0, deadline, tag, prescale, postscale, sent)),
            (sent, got), lambda: got.array, stream, memory)

    def allreduce(self, data: Array, out: Array | None = None, *,
                  op: Op = Op.SUM, prescale: float = 1.0,
                  postscale: float = 1.0, deadline: float | None = None,
                  tag: Tag = None, stream: Stream = None,
                  memory: Memory | None = None) -> Array:
        """Reduce data over all members, element by element; everyone gets the
        result. out=data works in place."""
        done = self._quick(SLICE_MS, 0, data, out, op, prescale, postscale,
                           deadline, tag, stream, memory)
        if done is not None:
            return done
        self._context.refuse_in_group("allreduce")
        return self.start_allreduce(
            data, out, op=op, prescale=prescale, postscale=postscale,
            deadline=deadline, tag=tag, stream=stream, memory=memory).wait()

    def start_grouped_allreduce(
            self, data: typing.Sequence[Array],
            out: typing.Sequence[Array] | None = None, *, op: Op = Op.SUM,
            prescale: float = 1.0, postscale: float = 1.0,
            deadline: float | None = None, tag: Tag = None,
            stream: Stream = None, memory: Memory | None = None
            ) -> Request[list]:
        """The same of several arrays, as one group: together or not at all,
        small ones as one. The result is a list."""
        return self._grouped(0, list(data), out and list(out), op, prescale,
                             postscale, deadline, tag, stream, memory)

    def grouped_allreduce(
            self, data: typing.Sequence[Array],
            out: typing.Sequence[Array] | None = None, *, op: Op = Op.SUM,
            prescale: float = 1.0, postscale: float = 1.0,
            deadline: float | None = None, tag: Tag = None,
            stream: Stream = None, memory: Memory | None = None) -> list:
        """The same of several arrays, as one group: together or not at all,
        small ones as one. The result is a list."""
        self._context.refuse_in_group("grouped_allreduce")
        done = self._grouped(SLICE_MS, list(data), out and list(out), op,
                             prescale, postscale, deadline, tag, stream,
                             memory)
        return done.wait() if isinstance(done, Request) else done

    def _grouped(self, wait_ms: int, data: list, out: list | None, op: Op,
                 prescale: float, postscale: float, deadline: float | None,
                 tag: Tag, stream: Stream, memory: Memory | None
                 ) -> typing.Any:
        if out is not None and len(out) != len(data):
            raise Invalid(f"grouped_allreduce got {len(data)} arrays, and "
                          f"{len(out)} for their results; pass as many")
        context = self._context
        done = self._quick(
            wait_ms, context.handle, data, out, op, prescale, postscale,
            deadline, tag, stream, memory) if data else None
        if done is not None:
            return done
        into = out or [None] * len(data)
        with contextlib.nullcontext() if context.is_grouping() \
                else context.group():
            requests = [self.start_allreduce(
                one, to, op=op, prescale=prescale, postscale=postscale,
                deadline=deadline, tag=tag, stream=stream, memory=memory)
                for one, to in zip(data, into)]
        return Request(context, Operations(requests),
                       lambda: [one.wait() for one in requests])

    def adasum(self, data: Array, out: Array | None = None) -> Array:
        """The sum of what is orthogonal and the average of what is equal, of
        floats in host memory; everyone gets the result. out=data works in
        place."""
        self._context.refuse_in_group("adasum")
        sent = look("adasum", data)
        got = _result("adasum", sent, out, sent.shape)
        if sent.memory != Memory.HOST or got.memory != Memory.HOST:
            raise Invalid("adasum got an array of the device; pass a copy in "
                          "host memory")
        if got.address != sent.address:
            ctypes.memmove(got.address, sent.address, sent.count * sent.item)
        call_waiting(lib.rg_adasum, self._handle, got.address, got.count,
                     got.type)
        return got.array

    def start_reduce(self, data: Array, out: Array | None = None, *,
                     root: int = 0, op: Op = Op.SUM, prescale: float = 1.0,
                     postscale: float = 1.0, deadline: float | None = None,
                     tag: Tag = None, stream: Stream = None,
                     memory: Memory | None = None) -> Request[Array | None]:
        """The same with the result at root only, and None elsewhere."""
        what = "reduce"
        sent = look(what, data)
        got = _result(what, sent, out, sent.shape) if self.rank == root \
            else None
        return self._start(
            lib.rg_reduce_start,
            (sent.address, got and got.address, sent.count, sent.type, op,
             _params(what, root, deadline, tag, prescale, postscale, sent)),
            (sent, got), lambda: got and got.array, stream, memory)

    reduce = _blocking(start_reduce)

    def start_reduce_scatter(self, data: Array, out: Array | None = None, *,
                             op: Op = Op.SUM, counts: Counts | None = None,
                             prescale: float = 1.0, postscale: float = 1.0,
                             deadline: float | None = None, tag: Tag = None,
                             stream: Stream = None,
                             memory: Memory | None = None) -> Request[Array]:
        """Reduce data, and give each member its part of the result: counts[r]
        rows, equal on all ranks. Without counts, equal parts; if rows do not
        divide, the first ranks get one more."""
        what, n = "reduce_scatter", self._n
        sent = need_rows(what, look(what, data))
        rows = _even(sent.shape[0], n) if counts is None \
            else _counts(what, counts, n)
        _check_sum(what, sent, rows)
        elements = _elements(what, rows, sent.row)
        rank = self.rank
        got = _result(what, sent, None if rank < 0 else out,
                      (rows[rank],) + sent.shape[1:])
        return self._start(  # which reports why there is no rank
            lib.rg_reduce_scatterv_start,
            (sent.address, got.address, elements, sent.type, op,
             _params(what, 0, deadline, tag, prescale, postscale, sent)),
            (sent, got), lambda: got.array, stream, memory)

    reduce_scatter = _blocking(start_reduce_scatter)

    # ----------------------------------------------- equal on all ranks

    def start_broadcast(self, data: Array, root: int = 0, *,
                        deadline: float | None = None,
                        tag: Tag = None, stream: Stream = None,
                        memory: Memory | None = None) -> Request[Array]:
        """Fill data with that of root; the result is data."""
        what = "broadcast"
        held = look(what, data) if root == self.rank \
            else look_writable(what, data)
        return self._start(
            lib.rg_broadcast_start,
            (held.address, held.count, held.type,
             _params(what, root, deadline, tag, like=held)),
            held, lambda: data, stream, memory)

    broadcast = _blocking(start_broadcast)

    def start_allgather(self, data: Array, out: Array | None = None, *,
                        deadline: float | None = None,
                        tag: Tag = None, stream: Stream = None,
                        memory: Memory | None = None) -> Request[Array]:
        """The rows of all members, in the order of their ranks; equally many
        of each."""
        what, n = "allgather", self._n
        sent = need_rows(what, look(what, data))
        got = _result(what, sent, out,
                      (n * sent.shape[0],) + sent.shape[1:])
        return self._start(
            lib.rg_allgather_start,
            (sent.address, got.address, sent.count, sent.type,
             _params(what, 0, deadline, tag, like=sent)),
            (sent, got), lambda: got.array, stream, memory)

    allgather = _blocking(start_allgather)

    def start_allgatherv(self, data: Array, counts: Counts,
                         out: Array | None = None, *,
                         deadline: float | None = None,
                         tag: Tag = None, stream: Stream = None,
                         memory: Memory | None = None) -> Request[Array]:
        """The same with counts[r] rows of rank r, equal on all ranks."""
        what, n = "allgatherv", self._n
        sent = need_rows(what, look(what, data))
        rows = _counts(what, counts, n)
        elements = _elements(what, rows, sent.row)
        got = _result(what, sent, out, (sum(rows),) + sent.shape[1:])
        return self._start(
            lib.rg_allgatherv_start,
            (sent.address, sent.count, got.address, elements, None, sent.type,
             _params(what, 0, deadline, tag)), (sent, got), lambda: got.array,
            stream, memory)

    def allgatherv(self, data: Array, out: Array | None = None, *,
                   deadline: float | None = None,
                   tag: Tag = None, stream: Stream = None,
                   memory: Memory | None = None) -> Array:
        """The same; how many rows each member has is asked first."""
        self._context.refuse_in_group("allgatherv")
        rows = need_rows("allgatherv", look("allgatherv", data)).shape[0]
        counts = self.allgather((c_uint64 * 1)(rows), deadline=deadline,
                                tag=tag)
        return self.start_allgatherv(data, counts, out,
                                     deadline=deadline, tag=tag,
                                     stream=stream, memory=memory).wait()

    # ------------------------------------------------ to and from a root

    def start_gather(self, data: Array, out: Array | None = None,
                     root: int = 0, *, deadline: float | None = None,
                     tag: Tag = None, stream: Stream = None,
                     memory: Memory | None = None) -> Request[Array | None]:
        """The rows of all members at root, equally many of each, and None
        elsewhere."""
        what, n = "gather", self._n
        sent = need_rows(what, look(what, data))
        got = None
        if self.rank == root:
            got = _result(what, sent, out,
                          (n * sent.shape[0],) + sent.shape[1:])
        return self._start(
            lib.rg_gather_start,
            (sent.address, got and got.address, sent.count, sent.type,
             _params(what, root, deadline, tag)), (sent, got),
            lambda: got and got.array, stream, memory)

    gather = _blocking(start_gather)

    def start_gatherv(self, data: Array, counts: Counts | None = None,
                      out: Array | None = None, root: int = 0, *,
                      deadline: float | None = None, tag: Tag = None,
                      stream: Stream = None, memory: Memory | None = None
                      ) -> Request[Array | None]:
        """The same with counts[r] rows of rank r; counts is for root only."""
        what, n = "gatherv", self._n
        sent = need_rows(what, look(what, data))
        elements = got = None
        if self.rank == root:
            if counts is None:
                raise Invalid("start_gatherv needs counts at the root; "
                              "gatherv asks for them")
            rows = _counts(what, counts, n)
            elements = _elements(what, rows, sent.row)
            got = _result(what, sent, out, (sum(rows),) + sent.shape[1:])
        return self._start(
            lib.rg_gatherv_start,
            (sent.address, sent.count, got and got.address, elements, None,
             sent.type, _params(what, root, deadline, tag)), (sent, got),
            lambda: got and got.array, stream, memory)

    def gatherv(self, data: Array, out: Array | None = None, root: int = 0, *,
                deadline: float | None = None,
                tag: Tag = None, stream: Stream = None,
                memory: Memory | None = None) -> Array | None:
        """The same; how many rows each member has is asked first."""
        self._context.refuse_in_group("gatherv")
        rows = need_rows("gatherv", look("gatherv", data)).shape[0]
        counts = self.gather((c_uint64 * 1)(rows), None, root,
                             deadline=deadline, tag=tag)
        return self.start_gatherv(data, counts, out, root,
                                  deadline=deadline, tag=tag,
                                  stream=stream, memory=memory).wait()

    def start_scatter(self, data: Array | None, out: Array, root: int = 0, *,
                      deadline: float | None = None,
                      tag: Tag = None, stream: Stream = None,
                      memory: Memory | None = None) -> Request[Array]:
        """Fill out with this rank's part of root's data; elsewhere data is not
        used."""
        what, n = "scatter", self._n
        got = look_writable(what, out)
        sent = None
        if self.rank == root:
            sent = look(what, data)
            _check_out(what, sent, got, sent.count // n)
            if sent.count % n != 0:
                raise Invalid(f"scatter of {sent.count} elements to {n} "
                              "members; scatterv takes parts that differ")
        return self._start(
            lib.rg_scatter_start,
            (sent and sent.address, got.address, got.count, got.type,
             _params(what, root, deadline, tag)), (sent, got), lambda: out,
            stream, memory)

    scatter = _blocking(start_scatter)

    def start_scatterv(self, data: Array | None, counts: Counts | None,
                       out: Array, root: int = 0, *,
                       deadline: float | None = None,
                       tag: Tag = None, stream: Stream = None,
                       memory: Memory | None = None) -> Request[Array]:
        """The same with counts[r] rows for rank r; data and counts are for
        root only."""
        what, n = "scatterv", self._n
        got = look_writable(what, out)
        sent = elements = None
        if self.rank == root:
            if counts is None:
                raise Invalid("scatterv needs counts at the root")
            sent = need_rows(what, look(what, data))
            rows = _counts(what, counts, n)
            _check_sum(what, sent, rows)
            elements = _elements(what, rows, sent.row)
            _check_out(what, sent, got, elements[root])
        return self._start(
            lib.rg_scatterv_start,
            (sent and sent.address, elements, None, got.address, got.count,
             got.type, _params(what, root, deadline, tag)), (sent, got),
            lambda: out, stream, memory)

    scatterv = _blocking(start_scatterv)

    # --------------------------------------------------------- all to all

    def start_alltoall(self, data: Array, out: Array | None = None, *,
                       deadline: float | None = None,
                       tag: Tag = None, stream: Stream = None,
                       memory: Memory | None = None) -> Request[Array]:
        """Part r of data goes to rank r, part r of the result comes from rank
        r; all parts are equal."""
        what, n = "alltoall", self._n
        sent = need_rows(what, look(what, data))
        if sent.shape[0] % n != 0:
            raise Invalid(f"alltoall of {sent.shape[0]} rows on a set of {n}; "
                          "alltoallv takes parts that differ")
        got = _result(what, sent, out, sent.shape)
        return self._start(
            lib.rg_alltoall_start,
            (sent.address, got.address, sent.count // n, sent.type,
             _params(what, 0, deadline, tag)), (sent, got), lambda: got.array,
            stream, memory)

    alltoall = _blocking(start_alltoall)

    def start_alltoallv(self, data: Array, send_counts: Counts,
                        recv_counts: Counts, out: Array | None = None, *,
                        deadline: float | None = None,
                        tag: Tag = None, stream: Stream = None,
                        memory: Memory | None = None) -> Request[Array]:
        """The same with send_counts[r] rows to rank r, and recv_counts[r] from
        there."""
        what, n = "alltoallv", self._n
        sent = need_rows(what, look(what, data))
        rows = _counts(what, send_counts, n)
        _check_sum(what, sent, rows)
        elements = _elements(what, rows, sent.row)
        coming = _counts(what, recv_counts, n)
        expected = _elements(what, coming, sent.row)
        got = _result(what, sent, out, (sum(coming),) + sent.shape[1:])
        return self._start(
            lib.rg_alltoallv_start,
            (sent.address, elements, None, got.address, expected, None,
             sent.type, _params(what, 0, deadline, tag)), (sent, got),
            lambda: got.array, stream, memory)

    def alltoallv(self, data: Array, counts: Counts, out: Array | None = None,
                  *, deadline: float | None = None, tag: Tag = None,
                  stream: Stream = None, memory: Memory | None = None
                  ) -> tuple[Array, list[int]]:
        """The same, and how many rows came from each rank; that is asked
        first."""
        what = "alltoallv"
        self._context.refuse_in_group(what)
        rows = _counts(what, counts, self._n)
        _check_sum(what, need_rows(what, look(what, data)), rows)
        received = list(self.alltoall(_elements(what, rows, 1),
                                      deadline=deadline, tag=tag))
        started = self.start_alltoallv(data, rows, received, out,
                                       deadline=deadline, tag=tag,
                                       stream=stream, memory=memory)
        return started.wait(), received

    # ------------------------------------------------ between two members

    def start_send(self, data: Array, peer: int, *,
                   deadline: float | None = None, tag: Tag = None
                   ) -> Request[None]:
        """A message to that rank of the set, whose receive has an equal tag.
        It completes when data may be changed again, which for more than 8 KiB
        is not before its receive."""
        sent = look("send", data)
        return self._start(
            lib.rg_send_start,
            (sent.address, sent.count, sent.type,
             integer("the peer of send", c_int, peer),
             _params("send", 0, deadline, tag)), sent, lambda: None)

    send = _blocking(start_send)

    def start_recv(self, out: Array, peer: int, *,
                   deadline: float | None = None, tag: Tag = None
                   ) -> Request[int]:
        """The message of that rank of the set with an equal tag, into the
        beginning of out. The result is the number of its elements; more than
        out has are a Mismatch."""
        got = look_writable("recv", out)
        came = c_uint64(0)
        return self._start(
            lib.rg_recv_start,
            (got.address, got.count, got.type,
             integer("the peer of recv", c_int, peer), ctypes.byref(came),
             _params("recv", 0, deadline, tag)), (got, came),
            lambda: came.value)

    recv = _blocking(start_recv)

    # ------------------------------------------------ objects of Python

    def broadcast_object(self, value: typing.Any, root: int = 0, *,
                         deadline: float | None = None) -> typing.Any:
        """The object that root has, pickled on the way; value is for root
        only."""
        is_root = self.rank == root
        sent, error = _pickled(value) if is_root else (b"", None)
        bytes_ = self.broadcast((c_uint64 * 1)(len(sent)), root,
                                deadline=deadline)[0]
        _need_pickled("broadcast_object", error, {root: bytes_})
        held = bytearray(sent) if is_root else bytearray(bytes_)
        self.broadcast(held, root, deadline=deadline)
        return value if is_root else pickle.loads(held)

    def allgather_object(self, value: typing.Any, *,
                         deadline: float | None = None) -> list:
        """The objects of all members, by rank, pickled on the way."""
        sent, error = _pickled(value)
        counts = list(self.allgather((c_uint64 * 1)(len(sent)),
                                     deadline=deadline))
        _need_pickled("allgather_object", error, dict(enumerate(counts)))
        rows = self.start_allgatherv(sent, counts, deadline=deadline).wait()
        ends = itertools.accumulate(counts)
        return [pickle.loads(rows[end - count:end])
                for count, end in zip(counts, ends)]

    # ------------------------------------------------------ without data

    def start_barrier(self, *, deadline: float | None = None, tag: Tag = None,
                      stream: Stream = None, memory: Memory | None = None
                      ) -> Request[None]:
        """Completes when every member has started it."""
        return self._start(lib.rg_barrier_start,
                           (_params("barrier", 0, deadline, tag),), None,
                           lambda: None, stream, memory)

    barrier = _blocking(start_barrier)

    def start_join(self, *, deadline: float | None = None) -> Request[int]:
        """This rank has no more data, and takes part in the others' allreduces
        without adding anything until all have joined. The result is the rank
        that joined last."""
        last = c_int(-1)
        return self._start(lib.rg_join_start,
                           (ctypes.byref(last), _params("join", 0, deadline)),
                           last, lambda: last.value)

    join = _blocking(start_join)


def color_of(given: int | None) -> int:
    """A colour as the C side has it."""
    if given is None:
        return _abi.NO_COLOR
    color = integer("a colour", c_int, given)
    if color < 0:
        raise Invalid(f"a colour is {color}; give 0 or more, or None")
    return color


class Rule:
    """The colour function of a set as the C side calls it. Its exception is
    raised once, by the set's next call."""

    def __init__(self, color: typing.Callable[[], int | None],
                 name: str | None) -> None:
        self.name = name
        self._color = color
        self._error: BaseException | None = None
        self.callback = callback(self._colors())

    def _colors(self) -> typing.Generator[int, object, None]:
        found = _abi.NO_COLOR
        while True:
            try:
                while True:
                    yield found
                    self._error = None
                    found = color_of(self._color())
            except GeneratorExit:
                return
            except BaseException as error:  # pylint: disable=broad-except
                self._error, found = error, _abi.NO_COLOR

    def check(self) -> None:
        """Raise the exception of the function's last call."""
        error, self._error = self._error, None
        if error is not None:
            raise error
