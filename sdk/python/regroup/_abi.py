"""The C ABI of libregroup, as ctypes sees it: where the library lies, its
enums, structs and functions, one table each.

Threads: a call releases the interpreter's lock while it is in the library.
Nothing here knows arrays or exceptions. tests/python compares every table with
regroup.h.
"""

from __future__ import annotations

import ctypes
import enum
import os
import pathlib
import typing
from ctypes import (CFUNCTYPE, POINTER, c_char, c_char_p, c_double, c_float,
                    c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64,
                    c_void_p)

VERSION = "0.1.0"
SONAME = "libregroup.so.0"


# ---------------------------------------------------------------- enums

class Status(enum.IntEnum):
    """The result of a call; `advice` says what to do about it."""

    OK = 0
    IN_PROGRESS = 1
    JOINING = 2
    ERR_INVALID = -1
    ERR_MEMORY = -2
    ERR_SYSTEM = -3
    ERR_NOT_MEMBER = -4
    ERR_UNSUPPORTED = -5
    ERR_MISMATCH = -6
    ERR_SET_ENDED = -7
    ERR_NOT_FOUND = -8
    ERR_TIMEOUT = -9
    ERR_HOSTS_CHANGED = -20
    ERR_PEER_LOST = -21
    ERR_REFUSED = -30
    ERR_AGENT_LOST = -31
    ERR_JOB_ENDED = -32
    ERR_STORE = -33
    ERR_DAMAGED = -34
    ERR_ASKED_TO_LEAVE = -35
    ERR_DEVICE = -36

    @property
    def advice(self) -> Advice:
        """What the caller should do about this status."""
        return Advice(lib.rg_status_advice(self))

    @property
    def text(self) -> str:
        """The status in a few words."""
        return lib.rg_status_text(self).decode()


class Advice(enum.IntEnum):
    """What to do about a status: NONE go on; RETRY call again; FIX the program
    is wrong; RESYNC and RESTORE leave the training function; ABORT end."""

    NONE = 0
    RETRY = 1
    FIX = 2
    RESYNC = 3
    RESTORE = 4
    ABORT = 5


class Type(enum.IntEnum):
    """The type of a buffer's elements."""

    U8 = 0
    I32 = 1
    I64 = 2
    F32 = 3
    F64 = 4
    I8 = 5
    U32 = 6
    U64 = 7
    F16 = 8
    BF16 = 9
    BOOL = 10
    F32_I32 = 11
    F64_I32 = 12
    I32_I32 = 13
    I64_I32 = 14
    F32_F32 = 15
    F64_F64 = 16


class Op(enum.IntEnum):
    """How elements of several ranks become one. AVG divides by the size of the
    set, and truncates integers; L is logical, B bitwise."""

    SUM = 0
    AVG = 1
    MIN = 2
    MAX = 3
    PROD = 4
    LAND = 5
    LOR = 6
    LXOR = 7
    BAND = 8
    BOR = 9
    BXOR = 10
    MINLOC = 11
    MAXLOC = 12


class Kind(enum.IntEnum):
    """Which part of a registered buffer each rank holds."""

    REPLICATED = 0
    SHARDED = 1
    LOCAL = 2


class Memory(enum.IntEnum):
    """The memory that elements are in."""

    HOST = 0
    DEVICE = 1


class Compression(enum.IntEnum):
    """What gradients of F32 and F64 are between ranks."""

    NONE = 0
    F16 = 1
    BF16 = 2
    TOP_K = 3


ENUMS = {"rg_compression": (Compression, "RG_COMPRESS_"),
         "rg_memory": (Memory, "RG_"), "rg_status": (Status, "RG_"),
         "rg_advice": (Advice, "RG_ADVICE_"), "rg_type": (Type, "RG_"),
         "rg_op": (Op, "RG_"), "rg_buffer_kind": (Kind, "RG_")}


# --------------------------------------------------------------- structs

class Sized(ctypes.Structure):
    """A params struct: its first field is its own size."""

    def __init__(self, **fields: object) -> None:
        super().__init__(size=ctypes.sizeof(self), **fields)


class Params(Sized):
    _fields_ = [("size", c_size_t), ("elastic", c_int)]


class SetParams(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("keep", c_int),
                ("unused", c_int), ("memory", c_int)]


class SetInfo(ctypes.Structure):
    _fields_ = [("id", c_uint32), ("name", c_char * 32), ("size", c_int),
                ("rank", c_int)]


class OpParams(Sized):
    _fields_ = [("size", c_size_t), ("root", c_int), ("timeout_ms", c_int),
                ("prescale", c_double), ("postscale", c_double),
                ("tag", c_uint64), ("memory", c_int), ("stream", c_void_p)]


class AllocParams(Sized):
    _fields_ = [("size", c_size_t)]


class StateParams(Sized):
    _fields_ = [("size", c_size_t)]


class BufferParams(Sized):
    _fields_ = [("size", c_size_t), ("kind", c_int), ("replicas", c_int),
                ("align", c_size_t), ("may_differ", c_int),
                ("constant", c_int), ("memory", c_int),
                ("redistribute", c_void_p), ("redistribute_arg", c_void_p)]


class DeviceParams(Sized):
    _fields_ = [("size", c_size_t), ("max_ctas", c_int),
                ("init_timeout_ms", c_int), ("abort_timeout_ms", c_int),
                ("in_flight", c_int)]


class DeviceInfo(Sized):
    _fields_ = [("size", c_size_t), ("device", c_int), ("driver", c_int),
                ("nccl", c_int), ("name", c_char * 64), ("bus", c_char * 16),
                ("free_bytes", c_uint64), ("total_bytes", c_uint64)]


class ReducerParams(Sized):
    _fields_ = [("size", c_size_t), ("sum", c_int), ("may_miss", c_int),
                ("bucket_bytes", c_uint64), ("scale", c_double),
                ("compression", c_int), ("error_feedback", c_int),
                ("top_k", c_double), ("adasum", c_int),
                ("deterministic", c_int), ("own_bytes", c_uint64)]


class Rows(Sized):
    _fields_ = [("size", c_size_t), ("n", c_uint64),
                ("at", POINTER(c_uint64)), ("rows", c_void_p)]


class ReducerInfo(Sized):
    _fields_ = [("size", c_size_t), ("tensors", c_int), ("buckets", c_int),
                ("steps", c_uint64), ("plans", c_uint64)]


class SaveParams(Sized):
    _fields_ = [("size", c_size_t), ("keep", c_int)]


class SamplerParams(Sized):
    _fields_ = [("size", c_size_t), ("count", c_uint64), ("batch", c_uint64),
                ("seed", c_uint64), ("in_order", c_int)]


def _pair(value: type, index: type) -> type[ctypes.Structure]:
    return type("Pair", (ctypes.Structure,),
                {"_fields_": [("value", value), ("index", index)]})


STRUCTS: dict[str, typing.Any] = {
    "rg_params": Params, "rg_set_params": SetParams, "rg_set_info": SetInfo,
    "rg_op_params": OpParams, "rg_alloc_params": AllocParams,
    "rg_state_params": StateParams, "rg_buffer_params": BufferParams,
    "rg_save_params": SaveParams, "rg_sampler_params": SamplerParams,
    "rg_reducer_params": ReducerParams, "rg_reducer_info": ReducerInfo,
    "rg_rows": Rows,
    "rg_device_params": DeviceParams, "rg_device_info": DeviceInfo,
    "rg_f32_i32": _pair(c_float, c_int32),
    "rg_f64_i32": _pair(c_double, c_int32),
    "rg_i32_i32": _pair(c_int32, c_int32),
    "rg_i64_i32": _pair(c_int64, c_int32),
    "rg_f32_f32": _pair(c_float, c_float),
    "rg_f64_f64": _pair(c_double, c_double)}

TrainFn = CFUNCTYPE(c_int, c_void_p, c_void_p)
ResetFn = SaveFn = TrainFn
CommitFn = CFUNCTYPE(None, c_void_p, c_uint64, c_void_p)
BreakFn = CFUNCTYPE(None, c_void_p, c_uint64, c_void_p)
RedistributeFn = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p)
ColorFn = CFUNCTYPE(c_int, c_void_p, c_void_p)

NO_COLOR = -1


# ------------------------------------------------------------- functions

_p = POINTER
_handle_p = _p(c_void_p)
_params: dict[str, type] = {tag: _p(struct)
                            for tag, struct in STRUCTS.items()}

# What collectives have in common.
_counts = _p(c_uint64)
_send_recv = [c_void_p, c_void_p, c_void_p]
_reduced = [c_uint64, c_int, c_int]
_end = [_params["rg_op_params"], _handle_p]

# name: (result, arguments); NULL results and handles are None.
FUNCTIONS: dict[str, tuple] = {
    **dict.fromkeys((
        "rg_finalize", "rg_world_wait", "rg_rank", "rg_size", "rg_local_rank",
        "rg_local_size", "rg_host_index", "rg_host_count", "rg_slot",
        "rg_set_destroy", "rg_set_rank", "rg_set_size", "rg_group_start",
        "rg_group_end", "rg_reducer_start_step", "rg_reducer_finish",
        "rg_parts_count", "rg_state_commit", "rg_step_end", "rg_stop"),
        (c_int, [c_void_p])),
    "rg_status_text": (c_char_p, [c_int]),
    "rg_status_name": (c_char_p, [c_int]),
    "rg_status_advice": (c_int, [c_int]),
    "rg_last_error": (c_char_p, []),
    "rg_version": (c_char_p, []),
    "rg_init": (c_int, [_params["rg_params"], _handle_p]),
    "rg_host": (c_char_p, [c_void_p]),
    "rg_generation": (c_uint64, [c_void_p]),
    "rg_world": (c_void_p, [c_void_p]),
    "rg_set_create": (c_int, [c_void_p, _p(c_int), c_int,
                              _params["rg_set_params"], _handle_p]),
    "rg_set_create_by": (c_int, [c_void_p, ColorFn, c_void_p,
                                 _params["rg_set_params"], _handle_p]),
    "rg_set_split": (c_int, [c_void_p, c_int, c_int,
                             _params["rg_set_params"], _handle_p]),
    "rg_set_id": (c_uint32, [c_void_p]),
    "rg_set_name": (c_char_p, [c_void_p]),
    "rg_set_translate": (c_int, [c_void_p, _p(c_int), c_int, c_void_p,
                                 _p(c_int)]),
    "rg_set_list": (c_int, [c_void_p, _p(SetInfo), c_int, _p(c_int)]),
    "rg_type_size": (c_size_t, [c_int]),
    "rg_op_has": (c_int, [c_int, c_int]),
    **dict.fromkeys((
        "rg_allreduce_start", "rg_reduce_start", "rg_reduce_scatter_start"),
        (c_int, [*_send_recv, *_reduced, *_end])),
    "rg_reduce_scatterv_start": (c_int, [*_send_recv, _counts, c_int, c_int,
                                         *_end]),
    "rg_broadcast_start": (c_int, [c_void_p, c_void_p, c_uint64, c_int,
                                   *_end]),
    **dict.fromkeys((
        "rg_allgather_start", "rg_gather_start", "rg_scatter_start",
        "rg_alltoall_start"),
        (c_int, [*_send_recv, c_uint64, c_int, *_end])),
    **dict.fromkeys(("rg_allgatherv_start", "rg_gatherv_start"), (
        c_int, [c_void_p, c_void_p, c_uint64, c_void_p, _counts, _counts,
                c_int, *_end])),
    "rg_scatterv_start": (c_int, [c_void_p, c_void_p, _counts, _counts,
                                  c_void_p, c_uint64, c_int, *_end]),
    "rg_alltoallv_start": (c_int, [c_void_p, c_void_p, _counts, _counts,
                                   c_void_p, _counts, _counts, c_int, *_end]),
    "rg_barrier_start": (c_int, [c_void_p, *_end]),
    "rg_join_start": (c_int, [c_void_p, _p(c_int), *_end]),
    "rg_send_start": (c_int, [c_void_p, c_void_p, c_uint64, c_int, c_int,
                              *_end]),
    "rg_recv_start": (c_int, [c_void_p, c_void_p, c_uint64, c_int, c_int,
                              _counts, *_end]),
    "rg_device_open": (c_int, [c_void_p, _params["rg_device_params"]]),
    "rg_device_info_get": (c_int, [c_void_p, _params["rg_device_info"]]),
    "rg_device_wait": (c_int, [c_void_p, c_int]),
    "rg_wait": (c_int, [_handle_p, c_int]),
    "rg_test": (c_int, [_handle_p]),
    "rg_wait_all": (c_int, [_handle_p, c_int, c_int]),
    "rg_alloc": (c_int, [c_void_p, c_size_t, _params["rg_alloc_params"],
                         _handle_p]),
    "rg_free": (c_int, [c_void_p, c_void_p]),
    "rg_register": (c_int, [c_void_p, c_void_p, c_size_t]),
    "rg_unregister": (c_int, [c_void_p, c_void_p]),
    "rg_reducer_create": (c_int, [c_void_p, _params["rg_reducer_params"],
                                  _handle_p]),
    **dict.fromkeys(
        ("rg_reducer_destroy", "rg_state_destroy", "rg_sampler_destroy"),
        (None, [c_void_p])),
    "rg_reducer_add": (c_int, [c_void_p, c_char_p, c_void_p, c_uint64, c_int,
                               _p(c_int)]),
    "rg_reducer_compress": (c_int, [c_void_p, c_int, c_int]),
    "rg_reducer_tensor": (c_int, [c_void_p, c_int, _handle_p]),
    "rg_reducer_ready": (c_int, [c_void_p, c_int]),
    "rg_reducer_info_get": (c_int, [c_void_p, _params["rg_reducer_info"]]),
    "rg_adasum": (c_int, [c_void_p, c_void_p, c_uint64, c_int]),
    "rg_allreduce_rows": (c_int, [c_void_p, _p(c_uint64), c_void_p, c_uint64,
                                  c_uint64, c_int, c_int,
                                  _p(_params["rg_rows"])]),
    "rg_rows_free": (None, [_params["rg_rows"]]),
    "rg_state_create": (c_int, [c_void_p, _params["rg_state_params"],
                                _handle_p]),
    "rg_state_add": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t,
                             _params["rg_buffer_params"]]),
    "rg_state_resize": (c_int, [c_void_p, c_char_p, c_void_p, c_size_t]),
    "rg_parts_bytes": (c_int, [c_void_p, c_int, _p(c_size_t)]),
    "rg_parts_read": (c_int, [c_void_p, c_int, c_size_t, c_size_t, c_void_p]),
    "rg_state_slice": (c_int, [c_void_p, c_char_p, _p(c_size_t),
                               _p(c_size_t)]),
    "rg_state_on_reset": (c_int, [c_void_p, ResetFn, c_void_p]),
    "rg_state_on_save": (c_int, [c_void_p, SaveFn, c_void_p]),
    "rg_state_on_commit": (c_int, [c_void_p, CommitFn, c_void_p]),
    "rg_on_break": (c_int, [c_void_p, BreakFn, c_void_p]),
    "rg_metric": (c_int, [c_void_p, c_char_p, c_double, c_int]),
    "rg_state_step": (c_uint64, [c_void_p]),
    "rg_run": (c_int, [c_void_p, TrainFn, c_void_p]),
    "rg_next": (c_int, [c_void_p, c_void_p]),
    "rg_state_resume": (c_int, [c_void_p, _p(c_uint64)]),
    "rg_state_load": (c_int, [c_void_p, c_char_p, _p(c_uint64)]),
    "rg_state_save": (c_int, [c_void_p, c_char_p, _params["rg_save_params"]]),
    "rg_state_saved": (c_int, [c_void_p, _p(c_uint64)]),
    "rg_sampler_create": (c_int, [c_void_p, _params["rg_sampler_params"],
                                  _handle_p]),
    "rg_sampler_steps": (c_uint64, [c_void_p]),
    "rg_sampler_batch_size": (c_uint64, [c_void_p, c_uint64]),
    "rg_sampler_take": (c_int, [c_void_p, c_uint64, c_uint64, c_int, c_int,
                                _p(_p(c_uint64)), _p(c_uint64)]),
}


# --------------------------------------------------------------- loading

def _place() -> str:
    """REGROUP_LIBRARY, the wheel's own library, or the loader's choice."""
    named = os.environ.get("REGROUP_LIBRARY")
    if named:
        return named
    bundled = pathlib.Path(__file__).parent / "lib" / SONAME
    return str(bundled) if bundled.exists() else SONAME


def _open(place: str) -> ctypes.CDLL:
    try:
        found = ctypes.CDLL(place)
    except OSError as error:
        raise ImportError(
            f"regroup can't load its library: {error}; name it in "
            "REGROUP_LIBRARY, or install it where the system's loader looks"
        ) from error
    for name, (result, arguments) in FUNCTIONS.items():
        try:
            function = getattr(found, name)
        except AttributeError as error:
            raise ImportError(f"{place} has no {name}; is it libregroup "
                              f"{VERSION}?") from error
        function.restype, function.argtypes = result, arguments
    return found


def _check_version(place: str, found: ctypes.CDLL) -> None:
    theirs = found.rg_version().decode()
    if theirs != VERSION:
        raise ImportError(
            f"{place} is libregroup {theirs}, and this package is {VERSION}: "
            "install the two together, or name the other in REGROUP_LIBRARY")


LIBRARY = _place()
lib = _open(LIBRARY)
_check_version(LIBRARY, lib)
