"""Beside mpi4py: the world of init is its communicator, in that one's order,
or MPI_COMM_WORLD; sets come from communicators and communicators from sets;
the program's own traffic goes on; an object that is not a communicator is
refused, and so is another MPI's mpirun, under which each process would be a
world of one.

Covers: _mpi.py"""
import sys

import pyjob


def check_world(MPI, ctx, comm):
    import numpy
    assert (ctx.rank, ctx.size) == (comm.rank, comm.size)
    mine = numpy.arange(4.0) + comm.rank
    theirs = numpy.empty_like(mine)
    request = comm.Iallreduce(mine, theirs)  # in flight meanwhile
    ours = ctx.world.allreduce(mine)
    request.Wait()
    assert (ours == theirs).all()
    assert MPI.COMM_WORLD.Get_errhandler() == MPI.ERRORS_RETURN


def check_sets(MPI, ctx, comm):
    import numpy
    halves = comm.Split(comm.rank % 2, -comm.rank)
    with ctx.set_of(halves, f"half{comm.rank % 2}") as half:
        assert (half.rank, half.size) == (halves.rank, halves.size)
        assert half.name == f"half{comm.rank % 2}"
        ranks = half.allgather(numpy.array([comm.rank]))
        assert list(ranks) == halves.allgather(comm.rank)
    nobody = ctx.set_of(halves if comm.rank % 2 == 0 else MPI.COMM_NULL)
    assert (nobody is None) == (comm.rank % 2 == 1)
    backwards = ctx.set(range(ctx.size - 1, -1, -1))
    lent = backwards.comm(MPI)
    assert isinstance(lent, MPI.Intracomm)
    assert lent.allgather(comm.rank) == list(range(ctx.size - 1, -1, -1))
    lent.Free()


def refused(kind, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        return error
    raise AssertionError(f"{call} took {arguments}")


def work():
    from mpi4py import MPI

    import regroup
    how = sys.argv[2]
    comm = MPI.COMM_WORLD
    if how == "alone":
        assert "Open MPI" in refused(regroup.Refused, regroup.init).sentence
        return
    if how == "reversed":
        comm = comm.Split(0, -comm.rank)
    refused(regroup.Invalid, regroup.init, "a communicator")
    refused(regroup.Invalid, regroup.init, MPI.COMM_NULL)
    assert regroup.mpi_threads_supported() == (
        MPI.Query_thread() == MPI.THREAD_MULTIPLE)
    with regroup.init(None if how == "world" else comm) as ctx:
        check_world(MPI, ctx, comm)
        check_sets(MPI, ctx, comm)
        refused(regroup.Invalid, ctx.set_of, 7)
    assert MPI.Is_initialized() and not MPI.Is_finalized()
    assert comm.allreduce(1) == comm.size  # goes on without Regroup


def test():
    workers = pyjob.command("given", modules=("numpy", "mpi4py.MPI"))[:-1]
    for how, size, transports in (
            ("given", 3, "mpi"), ("world", 3, "native"),
            ("reversed", 4, "mpi"), ("reversed", 2, "native,mpi")):
        pyjob.mpirun("openmpi", size, [*workers, how],
                     REGROUP_TRANSPORTS=transports)
    pyjob.mpirun("mpich", 2, [*workers, "alone"])


pyjob.main(work, test=test)
