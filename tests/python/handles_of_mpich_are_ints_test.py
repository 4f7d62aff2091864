"""The communicators of MPICH, whose handles are ints and not pointers, are
handed over both ways. Debian has no mpi4py for MPICH: the part of mpi4py that
the package uses is imitated here, over libmpich itself. And under its mpirun
init alone makes the world, initialises MPI and finalizes it, and a session
makes one without MPI_Init.

Covers: _mpi.py"""
import ctypes
import sys
import types

import pyjob

WORLD, SUM = 0x44000000, 0x58000003  # MPICH's MPI_COMM_WORLD, MPI_SUM
INT, MULTIPLE = 0x4c000405, 3


def play_mpi4py():
    """A module in mpi4py.MPI's place."""
    lib = ctypes.CDLL("libmpich.so.12")
    level = ctypes.c_int()
    lib.MPI_Init_thread(None, None, MULTIPLE, ctypes.byref(level))
    mpi = types.ModuleType("mpi4py.MPI")
    sys.modules["mpi4py.MPI"] = mpi

    class Intracomm:
        def __init__(self):
            self.handle = ctypes.c_int()
    Intracomm.__module__ = "mpi4py.MPI"
    mpi.Intracomm, mpi.lib, mpi.THREAD_MULTIPLE = Intracomm, lib, MULTIPLE
    mpi._sizeof = lambda comm: ctypes.sizeof(comm.handle)
    mpi._handleof = lambda comm: comm.handle.value
    mpi._addressof = lambda comm: ctypes.addressof(comm.handle)
    mpi.get_vendor = lambda: ("MPICH", (4, 0, 2))
    mpi.Query_thread = lambda: level.value
    mpi.Is_initialized, mpi.Is_finalized = lambda: True, lambda: False
    return mpi


def allreduced(mpi, comm, value):
    sent, got = ctypes.c_int(value), ctypes.c_int()
    assert mpi.lib.MPI_Allreduce(ctypes.byref(sent), ctypes.byref(got), 1, INT,
                                 SUM, comm.handle) == 0
    return got.value


def with_communicators():
    import numpy
    import regroup
    mpi = play_mpi4py()
    world = mpi.Intracomm()
    world.handle.value = WORLD
    with regroup.init(world) as ctx:
        assert ctx.size == 3 and regroup.mpi_threads_supported()
        assert ctx.world.allreduce(numpy.array([ctx.rank]))[0] == 3
        made = ctx.set([2, 0]).comm(mpi) if ctx.rank != 1 else ctx.set([2, 0])
        if ctx.rank != 1:
            assert allreduced(mpi, made, ctx.rank) == 2
        copy = mpi.Intracomm()
        mpi.lib.MPI_Comm_dup(world.handle, ctypes.byref(copy.handle))
        same = ctx.set_of(copy)
        assert (same.rank, same.size) == (ctx.rank, 3)
    assert allreduced(mpi, world, 1) == 3
    mpi.lib.MPI_Finalize()


def alone():
    import numpy
    import regroup
    with regroup.init() as ctx:
        assert ctx.size == 3
        assert ctx.world.allreduce(numpy.ones(1))[0] == 3
        print("threads", regroup.mpi_threads_supported())
    assert not regroup.mpi_threads_supported()  # it was finalized


def refused(call, reason):
    import regroup
    try:
        call()
    except regroup.Invalid as error:
        assert reason in str(error), error
        return
    raise AssertionError(f"{reason}: not refused")


def session():
    import numpy
    import regroup
    refused(lambda: regroup.init(1, session="mpi://WORLD"), "not both")
    refused(lambda: regroup.init(session="mpi://NONE"), "mpi://NONE")
    with regroup.init(session="mpi://WORLD") as ctx:
        assert ctx.size == 3
        assert ctx.world.allreduce(numpy.ones(1))[0] == 3


def work():
    {"given": with_communicators, "alone": alone,
     "session": session}[sys.argv[2]]()


def test():
    for how in "given", "alone", "session":
        pyjob.mpirun("mpich", 3, pyjob.command(how))


pyjob.main(work, test=test)
