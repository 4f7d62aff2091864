"""Regroup beside MPI: communicators of mpi4py are passed by their handles, and
libregroup_mpi of their MPI's flavour is loaded when needed.

A handle is a pointer in Open MPI and an int in MPICH, so its class is asked
for. mpi4py is never imported here: a program with a communicator has
imported it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys
import typing
from ctypes import POINTER, c_char_p, c_int, c_void_p

from . import _abi
from ._abi import LIBRARY, STRUCTS
from ._errors import Invalid, Refused, Unsupported

Comm = typing.Any  # mpi4py.MPI.Comm
_THREAD_MULTIPLE = 3  # in Open MPI and MPICH alike
_LAUNCHERS = {"OMPI_COMM_WORLD_SIZE": "openmpi", "PMI_SIZE": "mpich"}
_loaded: dict[str, ctypes.CDLL] = {}


def functions(handle: type) -> dict[str, tuple]:
    """The prototypes of regroup_mpi.h, for a class of handles."""
    return {
        "rg_init_mpi": (c_int, [handle, POINTER(STRUCTS["rg_params"]),
                                POINTER(c_void_p)]),
        "rg_init_session": (c_int, [c_char_p, POINTER(STRUCTS["rg_params"]),
                                    POINTER(c_void_p)]),
        "rg_set_create_mpi": (c_int, [
            c_void_p, handle, POINTER(STRUCTS["rg_set_params"]),
            POINTER(c_void_p)]),
        "rg_set_mpi_comm": (c_int, [c_void_p, POINTER(handle)])}


def _load(flavour: str) -> ctypes.CDLL:
    if flavour not in _loaded:
        name = f"libregroup_mpi-{flavour}.so.{_abi.SONAME.rsplit('.', 1)[1]}"
        beside = pathlib.Path(LIBRARY).parent / name
        found = ctypes.CDLL(str(beside) if beside.exists() else name,
                            mode=ctypes.RTLD_GLOBAL)
        handle = c_void_p if flavour == "openmpi" else c_int
        for function, (result, arguments) in functions(handle).items():
            getattr(found, function).restype = result
            getattr(found, function).argtypes = arguments
        _loaded[flavour] = found
    return _loaded[flavour]


def _mpi_of(comm: Comm) -> typing.Any:
    """mpi4py.MPI, of which comm is a communicator."""
    for kind in type(comm).__mro__:  # a program may derive its own
        mpi = sys.modules.get(kind.__module__)
        if hasattr(mpi, "_handleof"):
            return mpi
    raise Invalid(f"{comm!r:.60} is no communicator of mpi4py; pass one, such "
                  "as mpi4py.MPI.COMM_WORLD")


def _flavour_of(mpi: typing.Any) -> str:
    """Open MPI and its children, or MPICH and its."""
    return "openmpi" if mpi.get_vendor()[0] == "Open MPI" else "mpich"


def library_of(comm: Comm) -> ctypes.CDLL:
    """libregroup_mpi for the MPI that a communicator belongs to."""
    return _need(_flavour_of(_mpi_of(comm)))


def library_here() -> ctypes.CDLL:
    """libregroup_mpi for mpi4py's MPI, else for that of the launcher."""
    mpi = sys.modules.get("mpi4py.MPI")
    flavours = [_flavour_of(mpi)] if mpi is not None else [
        flavour for name, flavour in _LAUNCHERS.items() if name in os.environ]
    if not flavours:
        raise Invalid("init(session=) can't tell which MPI to use: import "
                      "mpi4py.MPI first, or start the program with mpirun")
    return _need(flavours[0])


def _need(flavour: str) -> ctypes.CDLL:
    try:
        return _load(flavour)
    except OSError as error:
        raise Unsupported(
            f"regroup can't load libregroup_mpi-{flavour}: {error}; build it "
            f"with that MPI, and let it lie beside {LIBRARY}") from error


def handle_of(comm: Comm) -> typing.Any:
    """The handle of a communicator, as its MPI's C functions take it."""
    mpi = _mpi_of(comm)
    size = mpi._sizeof(comm)  # pylint: disable=protected-access
    kind = c_void_p if size == ctypes.sizeof(c_void_p) else c_int
    return kind(mpi._handleof(comm))  # pylint: disable=protected-access


def new_comm(like: typing.Any) -> tuple[Comm, typing.Any]:
    """An empty communicator of mpi4py, and a view of its handle for a C
    function that makes it. like: mpi4py.MPI."""
    comm = like.Intracomm()
    kind = type(handle_of(comm))
    address = like._addressof(comm)  # pylint: disable=protected-access
    return comm, kind.from_address(address)


def join_launcher() -> None:
    """Under mpirun and without an agent, load libregroup_mpi, so that the
    world of rg_init is MPI_COMM_WORLD. If it is missing, rg_init reports the
    problem."""
    if os.environ.get("REGROUP_SOCKET"):
        return
    mpi = sys.modules.get("mpi4py.MPI")
    for name, flavour in _LAUNCHERS.items():
        tasks = int(os.environ.get(name) or 1)
        if tasks == 1:
            continue
        if mpi is not None:
            _need_tasks(mpi, tasks)
            flavour = _flavour_of(mpi)
        with contextlib.suppress(OSError):
            _load(flavour)
        return


def _need_tasks(mpi: typing.Any, tasks: int) -> None:
    """Under another MPI's mpirun each process is an MPI_COMM_WORLD of one."""
    if not mpi.Is_initialized() or mpi.Is_finalized():
        return
    size = mpi.COMM_WORLD.Get_size()
    if size < tasks:
        raise Refused(
            f"the launcher says {tasks} tasks, and MPI_COMM_WORLD of mpi4py "
            f"has {size}: it was built with another MPI; start the program "
            f"with the mpirun of {mpi.get_vendor()[0]}")


def is_loaded() -> bool:
    """Whether the transport mpi may carry operations here."""
    return bool(_loaded)


def keep(holds: list[object]) -> None:
    """Never release these, even when the interpreter ends: MPI has their
    buffers until MPI_Finalize, since it can't cancel operations."""
    if holds:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(holds))


def mpi_threads_supported() -> bool:
    """Whether MPI is there, and any thread may call it at any time
    (MPI_THREAD_MULTIPLE); else operations on the transport mpi progress only
    inside calls."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None:
        return mpi.Is_initialized() and not mpi.Is_finalized() and \
            mpi.Query_thread() == mpi.THREAD_MULTIPLE
    for library in _loaded.values():
        is_up, is_over, level = c_int(), c_int(), c_int()
        library.MPI_Initialized(ctypes.byref(is_up))
        library.MPI_Finalized(ctypes.byref(is_over))
        if is_up.value and not is_over.value:
            library.MPI_Query_thread(ctypes.byref(level))
            return level.value == _THREAD_MULTIPLE
    return False
