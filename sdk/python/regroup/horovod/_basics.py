"""init, ranks and process sets, by Horovod's names."""

from __future__ import annotations

import hashlib
import json
import operator
import os
import pathlib
import subprocess
import types
import typing

from .._abi import LIBRARY, Op
from .._context import current
from .._context import init as _init
from .._errors import Invalid, System, Unsupported
from .._mpi import mpi_threads_supported
from .._sets import Set
from ._queue import Queue, handles


Average, Sum, Adasum = "Average", "Sum", "Adasum"
Min, Max, Product = "Min", "Max", "Product"
OPS = {Average: Op.AVG, Sum: Op.SUM, Min: Op.MIN, Max: Op.MAX,
       Product: Op.PROD}


def named_op(average: bool | None, op: str | None) -> str:
    """The reduction that a call names by one of its two options."""
    if average is not None and op is not None:
        raise ValueError("The op parameter supersedes average. Please provide "
                         "only one of them.")
    found = op or (Average if average is None or average else Sum)
    if found != Adasum and found not in OPS:
        raise Invalid(f"{op!r} is no operation; give hvd.Sum or the like")
    return found


_PLACE = ("rank", "size", "local_rank", "local_size", "host_index",
          "host_count", "slot")
_places: list[types.SimpleNamespace] = []  # of parents


def _remember() -> None:
    """A forked child, such as a worker of DataLoader, may ask for ranks."""
    found = current()
    if found is not None:
        _places[:] = [types.SimpleNamespace(
            **{name: getattr(found, name) for name in _PLACE})]


os.register_at_fork(before=_remember, after_in_parent=_places.clear)


def _context() -> typing.Any:
    found = current() or (_places[0] if _places else None)
    if found is None:
        raise ValueError("Horovod has not been initialized; use hvd.init().")
    return found


def _name(prefix: str, ranks: list[int] | None) -> str:
    return prefix + hashlib.blake2b(repr(ranks).encode(),
                                    digest_size=8).hexdigest()


class ProcessSet:
    """Some ranks, which run operations of their own."""

    def __init__(self, ranks_or_comm: typing.Any) -> None:
        self.process_set_id: int | None = None
        self.ranks: list[int] | None = None
        self.mpi_comm = None
        if hasattr(ranks_or_comm, "Get_rank"):
            self.mpi_comm = ranks_or_comm
        elif ranks_or_comm is not None:
            self.ranks = sorted(set(map(operator.index, ranks_or_comm)))
        self._members: Set | None = None
        self._queue: Queue | None = None

    def make(self) -> None:
        """The sets, on all ranks of the world together."""
        ctx = _context()
        if self is global_process_set:
            made, self.ranks = ctx.world, list(range(ctx.size))
        elif self.mpi_comm is not None:
            made = ctx.set_of(self.mpi_comm)
            self.ranks = made.translate(range(made.size), ctx.world)
        else:
            made = ctx.set(self.ranks, _name("hvd.", self.ranks))
        self._members = made
        if self is global_process_set and ctx.is_elastic:
            rounds = ctx.set_by(lambda: 0, "hvd.rounds")
        else:
            rounds = ctx.set(self.ranks, _name("hvd.r.", self.ranks))
        if made.rank >= 0:
            self._queue = Queue(rounds)
        self.process_set_id = made.id

    def forget(self) -> None:
        """It has to be made again."""
        self._members = self._queue = self.process_set_id = None

    def remove(self) -> None:
        """Give the set back."""
        self.members.destroy()
        self.forget()

    @property
    def members(self) -> Set:
        """The Set."""
        if self._members is None:
            if self is global_process_set:
                _context()
            raise ValueError(f"{self} is not there; call hvd.add_process_set")
        return self._members

    @property
    def queue(self) -> Queue:
        """Its operations."""
        if self._queue is None:
            raise ValueError(f"this rank is not in {self}")
        return self._queue

    def rank_of(self, world_rank: int) -> int:
        """A rank of the world, such as a root, in this set."""
        members = self.members
        found, = members.context.world.translate([world_rank], members)
        if found < 0:
            raise Invalid(f"rank {world_rank} is not in {self}")
        return found

    def size(self) -> int | None:
        """How many ranks it has; None: it is not made yet."""
        return None if self.process_set_id is None else self.members.size

    def rank(self) -> int | None:
        """This rank in it; None: it is not made yet."""
        if self.process_set_id is None:
            return None
        if self.members.rank < 0:
            raise ValueError(f"this rank is not in {self}")
        return self.members.rank

    def included(self) -> bool | None:
        """Whether this rank is in it; None: its ranks are not known yet."""
        return None if self.ranks is None else _context().rank in self.ranks

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, " \
            f"ranks={self.ranks}, mpi_comm={self.mpi_comm})"


global_process_set = ProcessSet(None)


def init(comm: typing.Any = None, process_sets: typing.Any = None, *,
         elastic: bool | None = None) -> None:
    """Join the job. elastic: workers may come and go; without it, whether
    HOROVOD_ELASTIC is 1."""
    ctx = current()
    if ctx is not None and _forget in ctx.on_leave:
        return
    if elastic is None:
        elastic = os.environ.get("HOROVOD_ELASTIC") == "1"
    if isinstance(comm, (list, tuple)) and comm:
        raise Invalid("init got a list of ranks; make a ProcessSet of them")
    ctx = ctx or _init(comm or None, elastic=elastic)
    ctx.on_leave.append(_forget)
    if ctx.is_elastic and ctx.rank < 0 and not ctx.world_wait():
        _expect(ctx)
        return
    if os.environ.get("HOROVOD_SIZE", "1") != "1" and ctx.size == 1:
        raise Invalid("horovodrun has started this program, and each of its "
                      "processes would be alone; start it with regroup run")
    _made()
    if isinstance(process_sets, (list, tuple)):
        for one in process_sets:
            add_process_set(one)


def _forget() -> None:
    """Sets are made again in the next generation, and what was started with
    this one ends with it."""
    handles.clear()
    for one in _added:
        one.forget()
    _added.clear()


def _made() -> None:
    if current() is not None and global_process_set._members is None:
        global_process_set.make()
        _added.append(global_process_set)


_added: list[ProcessSet] = []


def add_process_set(process_set: typing.Any) -> ProcessSet:
    """Make a set, on all ranks together; ranks will do."""
    found = process_set if isinstance(process_set, ProcessSet) \
        else ProcessSet(process_set)
    if found.process_set_id is not None:
        raise ValueError(f"{found} is there already")
    if found.ranks in [one.ranks for one in _added
                       if one is not global_process_set]:
        raise ValueError(f"a process set of the ranks {found.ranks} is there "
                         "already; use that")
    found.make()
    _added.append(found)
    return found


def remove_process_set(process_set: ProcessSet) -> bool:
    """Give a set back, on all ranks together."""
    if process_set is global_process_set or \
            process_set.process_set_id is None:
        return False
    process_set.remove()
    _added.remove(process_set)
    return True


def shutdown() -> None:
    """Leave the job."""
    found = current()
    if found is not None:
        _forget()
        found.finalize()


def is_initialized() -> bool:
    """Whether init was called, and shutdown was not."""
    return current() is not None


def _ask_agent(*words: str) -> str:
    """What `regroup WORDS` prints for this job."""
    socket = os.environ.get("REGROUP_SOCKET")
    if socket is None:
        raise Unsupported(f"{words[0]} needs an agent, and this program has "
                          "none; start it with regroup run")
    beside = pathlib.Path(LIBRARY).parent.parent / "bin" / "regroup"
    program = str(beside) if beside.is_absolute() and beside.exists() \
        else "regroup"
    done = subprocess.run(
        [program, *words, pathlib.Path(socket).parent.name],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise System(done.stderr.strip())
    return done.stdout


def _expect(ctx: typing.Any) -> None:
    """While this worker joins a running job it has no rank. What a program
    makes before elastic.run, such as a DistributedSampler, needs one: it is
    told the last rank of the world that there will be when all workers that
    wait now have joined, so that it never takes itself for rank 0. Where
    nothing answers, two."""
    try:
        found = json.loads(_ask_agent("status", "--json"))
        workers = [one for host in found["hosts"] for one in host["workers"]]
        expected = sum(one["rank"] is not None or one["state"] in (
            "starting", "door") for one in workers)
        _expected[:] = [max(1, min(expected, found["max"]))]
    except (OSError, Unsupported):  # there is no command, or no answer
        _expected[:] = [2]
    ctx.on_leave.append(_expected.clear)


_expected: list[int] = []  # size of the world that it joins


def joins() -> bool:
    """Whether this worker joins a running job, and has no rank yet."""
    return _context().rank < 0


def size() -> int:
    """Workers; those that are expected while this one joins a running job."""
    ctx = _context()
    return ctx.size if ctx.rank >= 0 or not _expected else _expected[0]


def rank() -> int:
    """This worker's rank; the last one while it joins a running job."""
    ctx = _context()
    return ctx.rank if ctx.rank >= 0 or not _expected else _expected[0] - 1


def local_size() -> int:
    """Workers on this host."""
    return max(1, _context().local_size)


def local_rank() -> int:
    """Rank among the workers of this host."""
    ctx = _context()
    return ctx.local_rank if ctx.rank >= 0 else ctx.slot


def cross_size() -> int:
    """Hosts."""
    return max(1, _context().host_count)


def cross_rank() -> int:
    """The number of this host."""
    return max(0, _context().host_index)


def is_homogeneous() -> bool:
    """Whether all hosts have equally many workers."""
    ctx = _context()
    return ctx.local_size * ctx.host_count == ctx.size


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Begin a timeline of all workers, in a file for each host
    (docs/observing.md). There are no cycles to mark."""
    del mark_cycles
    if rank() == 0:
        _ask_agent("timeline", "start", file_path)


def stop_timeline() -> None:
    """End it."""
    if rank() == 0:
        _ask_agent("timeline", "stop")


def _no() -> bool:
    return False


mpi_enabled = mpi_built = gloo_enabled = gloo_built = _no
nccl_built = ddl_built = ccl_built = cuda_built = rocm_built = _no

__all__ = [
    "ProcessSet", "add_process_set", "ccl_built", "cross_rank", "cross_size",
    "cuda_built", "ddl_built", "global_process_set", "gloo_built",
    "gloo_enabled", "init", "is_homogeneous", "is_initialized", "local_rank",
    "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported",
    "nccl_built", "rank", "remove_process_set", "rocm_built", "shutdown",
    "size", "start_timeline", "stop_timeline"]
