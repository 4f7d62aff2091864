/* Regroup beside MPI: link with libregroup_mpi and start the program with
 * mpirun, and the world of rg_init is MPI_COMM_WORLD, or with rg_init_mpi a
 * communicator of the program.
 *
 * Regroup communicates on communicators of its own, so nothing that is in
 * flight on the program's can meet it, and it never touches an error handler of
 * the program. MPI is initialised by whoever comes first, and finalised by that
 * one only: rg_finalize calls MPI_Finalize when rg_init has called MPI_Init,
 * and then it is collective.
 *
 * Threads: by the level of MPI_Query_thread.
 *   MULTIPLE    as regroup.h says.
 *   SERIALIZED  operations progress inside of calls of Regroup only, and the
 *               program makes one call at a time, of MPI or of Regroup.
 *   lower       likewise, and only the thread that initialised MPI makes them.
 * A world that transport native carries is bound by none of this: it calls MPI
 * in the functions of this header, in rg_init and in rg_finalize only.
 *
 * Mismatches over transport mpi, by REGROUP_CHECK:
 *   late   (default) ERR_MISMATCH by the operation or one behind it; bytes may
 *          have been written by then, and the set is over
 *   each   as regroup.h says; rg_join needs it, and is ERR_UNSUPPORTED else
 *   off    nothing is compared
 * REGROUP_CHECK is the same on all ranks, else rg_init is ERR_MISMATCH. With
 * late MPI may go on reading and writing the buffers of operations that have
 * ended with ERR_MISMATCH: they belong to the library until MPI_Finalize, as
 * after ERR_TIMEOUT. With each and off nobody is told that a rank has called
 * rg_finalize, and who waits for it waits for ever.
 *
 * When MPI has no communicator left, whatever makes a set or a communicator
 * ends with ERR_SYSTEM on the ranks that MPI tells so; others may have the set
 * by then, get ERR_MISMATCH in what they call next, or wait in MPI. End the
 * job.
 */
#ifndef REGROUP_MPI_H
#define REGROUP_MPI_H

#include <mpi.h>

#include "regroup/regroup.h"

#ifdef __cplusplus
extern "C" {
#endif

/* rg_init for the processes of a communicator, in its order. Collective over
 * it; comm is not kept. ERR_INVALID: MPI is not initialised or finalised, comm
 * is no intra-communicator, or an agent has started this process. */
RG_API rg_status rg_init_mpi(MPI_Comm comm, const rg_params *params,
                             rg_ctx **ctx_p);

/* Make a set of a communicator's processes, in its order. Collective over the
 * world: each rank brings its communicator, such as its colour's of
 * MPI_Comm_split, and gets that one's set, or MPI_COMM_NULL, and gets NULL. A
 * name in params is the communicator's: the same on its ranks, another one
 * elsewhere. comm is not kept. As in MPI a duplicate makes another set: equal
 * members are no reason to share operations. But a name that lives with the
 * same members, in that order, is that set again, as with rg_set_create.
 *
 * On all ranks, when it holds for one: ERR_INVALID, a communicator has a
 * process outside of the world, or is an inter-communicator, params are wrong,
 * there is no place for the set, or a set of the name lives with other members;
 * ERR_MISMATCH, not all processes of a communicator have brought it, or some of
 * them have destroyed the set of the name and others not; ERR_MEMORY.
 * ERR_INVALID also where the world was not started over MPI, and with a group
 * open; ctx NULL is on that rank alone. */
RG_API rg_status rg_set_create_mpi(rg_ctx *ctx, MPI_Comm comm,
                                   const rg_set_params *params, rg_set **set_p);

/* Make a communicator of a set's members, in the set's order, for MPI calls of
 * the program. Collective over the set. The caller owns it and gives it back
 * with MPI_Comm_free; it has the error handler that MPI_COMM_WORLD, or the
 * communicator of rg_init_mpi, had at rg_init. On all members, when it holds
 * for one: ERR_INVALID, there is no place for the communicator; ERR_MEMORY. */
RG_API rg_status rg_set_mpi_comm(rg_set *set, MPI_Comm *comm_p);

#ifdef __cplusplus
}
#endif
#endif
