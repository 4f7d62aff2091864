"""Regroup: process sets and elastic loops for jobs whose workers come and go.

    import numpy
    import regroup

    with regroup.init() as ctx:
        total = ctx.world.allreduce(numpy.array([ctx.rank]))

and `regroup run -n 4 python3 program.py`. README.md tells the rest.
"""

from ._abi import VERSION as __version__
from ._abi import Advice, Kind, Op, Status, Type
from ._abi import Memory as _Where
from ._buffers import STREAM_NONE
from ._context import (Context, DeviceInfo, Registered, SetInfo, current,
                       init, metric)
from ._errors import (AgentLost, AskedToLeave, Damaged, Device, HostsChanged,
                      InProgress, Invalid, JobEnded, Memory, Mismatch,
                      NotFound, NotMember, PeerLost, Refused, RegroupError,
                      SetEnded, Store, System, Timeout, Unsupported)
from ._mpi import mpi_threads_supported
from ._reducer import Reducer, ReducerCounts
from ._sets import Set
from ._state import Generation, Parts, Sampler, State, run
from ._wait import Request, wait_all

LOCAL, REPLICATED, SHARDED = Kind.LOCAL, Kind.REPLICATED, Kind.SHARDED
HOST, DEVICE = _Where.HOST, _Where.DEVICE
SUM, AVG, MIN, MAX, PROD = Op.SUM, Op.AVG, Op.MIN, Op.MAX, Op.PROD
LAND, LOR, LXOR = Op.LAND, Op.LOR, Op.LXOR
BAND, BOR, BXOR = Op.BAND, Op.BOR, Op.BXOR
MINLOC, MAXLOC = Op.MINLOC, Op.MAXLOC

__all__ = [
    "AVG", "Advice", "AgentLost", "AskedToLeave", "BAND", "BOR", "BXOR",
    "Context", "DEVICE", "Damaged", "Device", "DeviceInfo", "Generation", "HOST",
    "HostsChanged",
    "InProgress", "Invalid", "JobEnded", "Kind", "LAND",
    "LOCAL", "LOR", "LXOR", "MAX", "MAXLOC", "MIN", "MINLOC", "Memory", "Mismatch", "NotFound", "NotMember", "Op",
    "PROD", "Parts", "PeerLost", "REPLICATED", "Reducer", "ReducerCounts", "Refused", "Registered", "RegroupError", "Request",
    "SHARDED", "STREAM_NONE", "SUM", "Sampler", "Set", "SetEnded", "SetInfo", "State",
    "Status", "Store", "System", "Timeout", "Type", "Unsupported",
    "__version__", "current", "init", "metric", "mpi_threads_supported", "run", "wait_all"]
