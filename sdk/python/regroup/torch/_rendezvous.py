"""init_method="regroup://", and the sets of torch.distributed's groups.

The store that c10d needs beside a backend is torch's own, at rank 0 of each
generation. Nothing waits on it: ranks agree by collectives that they are
connected, and that a group is made, so a rank that dies meanwhile ends the wait
of the others. Sub-groups are sets, which all ranks of the world make together:
c10d has a function that all ranks call for each group, members or not, and
calls a backend only on the members, so the set is made around that function.
Each group has a set of its own, also where another has the same ranks: two
threads may use them at once.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import inspect
import os
import socket
import typing
import urllib.parse

import torch.distributed as dist
from torch.distributed import distributed_c10d

from .._context import Context, current, init
from .._errors import Invalid, System
from .._sets import Set
from ._ddp import Reducer
from ._group import ProcessGroup

_SCHEME = "regroup"
_TIMEOUT = distributed_c10d.default_pg_timeout
_CONNECT = datetime.timedelta(seconds=10)  # to a server that is there
_sets: dict[tuple[int, ...], Set] = {}  # of the newest groups
_count = [0]  # groups that were made since the default one


def context() -> Context:
    """The context of this process; one that is not elastic is made if there
    is none."""
    found = current() or init()
    if _leave not in found.on_leave:
        found.on_leave.append(_leave)
    if found.rank < 0:
        raise Invalid("init_process_group was called where this worker has no "
                      "rank; in an elastic program call it inside of the "
                      "training function")
    return found


def _leave() -> None:
    """A change has ended the training function: its groups end as well, and
    init_process_group makes the next ones."""
    Reducer.leave()
    if dist.is_initialized():
        dist.destroy_process_group()
    _sets.clear()


# ----------------------------------------------------------------- store

def _address(ctx: Context) -> str:
    """Where the other hosts reach this one."""
    if ctx.host_count == 1:
        return "127.0.0.1"
    named = os.environ.get("MASTER_ADDR")
    return named or socket.gethostbyname(socket.gethostname())


def _store(*arguments: typing.Any, **named: typing.Any) -> dist.TCPStore:
    """With the server that every build of torch has."""
    if "use_libuv" in (dist.TCPStore.__init__.__doc__ or ""):
        named["use_libuv"] = False
    return dist.TCPStore(*arguments, **named)


def _meet(url: str, timeout: datetime.timedelta = _TIMEOUT,
          **_: object) -> typing.Iterator[tuple]:
    """The handler of regroup://; c10d adds a rank and a world_size that the
    program gave."""
    ctx = context()
    given = urllib.parse.parse_qs(urllib.parse.urlparse(url).query)
    for what, mine in (("rank", ctx.rank), ("world_size", ctx.size)):
        if given.get(what, [str(mine)]) != [str(mine)]:
            raise Invalid(f"init_process_group got {what}={given[what][0]}, "
                          f"and it is {mine} here; leave {what} out")
    store, why = None, None
    if ctx.rank == 0:
        store = _store("127.0.0.1", 0, ctx.size, True, timeout,
                       wait_for_workers=False)
        ctx.world.broadcast_object((_address(ctx), store.port))
    else:
        host, port = ctx.world.broadcast_object(None)
        try:
            store = _store(host, port, ctx.size, False, min(timeout, _CONNECT))
            store.set_timeout(timeout)
        except (RuntimeError, OSError) as error:
            why = f"{host}:{port}: {error}"
    for rank, one in enumerate(ctx.world.allgather_object(why)):
        if one is not None:
            raise System(f"rank {rank} can't reach the store of rank 0 at "
                         f"{one}; set MASTER_ADDR to an address of its host")
    yield store, ctx.rank, ctx.size


# ---------------------------------------------------------------- groups

def _name(group: int, ranks: typing.Sequence[int]) -> str:
    """Equal in every generation that has the group again."""
    digest = hashlib.blake2b(repr(ranks).encode(), digest_size=6).hexdigest()
    return f"torch.{group}.{digest}"


def _making_sets(helper: typing.Callable) -> typing.Callable:
    """c10d's function for each group, called by all ranks of the world."""
    @functools.wraps(helper)
    def make(size: int, rank: int, ranks: typing.Sequence[int],
             backend: typing.Any, *rest: typing.Any, **named: typing.Any
             ) -> typing.Any:
        key = tuple(ranks)
        _count[0] = _count[0] + 1 if key else 0  # it has no ranks
        if key and _SCHEME in str(backend).lower():
            _sets[key] = context().set(key, _name(_count[0], key))
        return helper(size, rank, ranks, backend, *rest, **named)
    return make


def _behind_groups(barrier: typing.Callable) -> typing.Callable:
    """c10d's barrier of all ranks behind each new group."""
    @functools.wraps(barrier)
    def wait(*arguments: typing.Any, **named: typing.Any) -> None:
        if dist.get_backend() == _SCHEME:
            context().world.barrier()
        else:
            barrier(*arguments, **named)
    return wait


def _create(options: typing.Any, _own: object = None) -> ProcessGroup:
    """What c10d calls on the members of a group."""
    ctx = context()
    key = tuple(options.global_ranks_in_group)
    members = _sets[key] if key else ctx.world
    if (members.rank, members.size) != (options.group_rank,
                                        options.group_size):
        raise Invalid(
            f"init_process_group got rank {options.group_rank} of "
            f"{options.group_size}, and this worker is rank {members.rank} of "
            f'{members.size}; pass init_method="regroup://" alone')
    is_default = options.timeout == _TIMEOUT
    return ProcessGroup(members, None if is_default else
                        options.timeout.total_seconds())


def register() -> None:
    """Make the backend and the init method known to torch.distributed, once.
    """
    if _SCHEME.upper() in dist.Backend._plugins:
        return
    takes = inspect.signature(dist.Backend.register_backend).parameters
    more = {"devices": ["cpu", "cuda"]} if "devices" in takes else {}
    dist.Backend.register_backend(_SCHEME, _create, extended_api=True, **more)
    dist.register_rendezvous_handler(_SCHEME, _meet)
    dist.Reducer = Reducer  # type: ignore[misc]
    distributed_c10d._new_process_group_helper = _making_sets(
        distributed_c10d._new_process_group_helper)
    distributed_c10d._store_based_barrier = _behind_groups(
        distributed_c10d._store_based_barrier)
