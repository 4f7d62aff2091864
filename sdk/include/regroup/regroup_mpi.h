/* Regroup beside MPI: link with libregroup_mpi and start the program with
 * mpirun. The world of rg_init is then MPI_COMM_WORLD, and that of rg_init_mpi
 * a communicator of the program. It is a static world: rg_run needs an agent.
 *
 * Regroup communicates on communicators of its own, so it never interferes with
 * what is in flight on the program's, and it never touches an error handler of
 * the program. The side that initialises MPI also finalises it: rg_finalize
 * calls MPI_Finalize if rg_init has called MPI_Init, and is collective then.
 *
 * Threads: by the level of MPI_Query_thread.
 *   MULTIPLE    as regroup.h says.
 *   SERIALIZED  operations progress only inside calls of Regroup, but most
 *               allreduces also inside those of MPI (docs/thread-levels.md);
 *               the program makes one call at a time, of MPI or of Regroup.
 *   lower       likewise, and only the thread that initialised MPI makes them.
 * None of this binds a world that transport native carries: it calls MPI only
 * in the functions of this header, in rg_init and in rg_finalize.
 *
 * Mismatches over transport mpi, by REGROUP_CHECK:
 *   late   (default) ERR_MISMATCH from the operation or a later one; bytes may
 *          have been written by then, and the set is over
 *   each   as regroup.h says; rg_join needs it, and otherwise returns
 *          ERR_UNSUPPORTED
 *   off    nothing is compared
 * REGROUP_CHECK must be the same on all ranks; otherwise rg_init returns
 * ERR_MISMATCH. With late, MPI may go on reading and writing the buffers of
 * operations that have ended with ERR_MISMATCH: they belong to the library
 * until MPI_Finalize, as after ERR_TIMEOUT. With each and off, ranks don't hear
 * that a rank has called rg_finalize, and a rank that waits for it waits
 * without limit.
 *
 * When MPI has no communicator left, a call that makes a set or a communicator
 * returns ERR_SYSTEM on the ranks to which MPI reports it; other ranks may have
 * the set by then, get ERR_MISMATCH from their next call, or wait in MPI. End
 * the job when that happens.
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

/* rg_init for the processes of one of MPI's process sets (MPI 4), by name:
 * mpi://WORLD, mpi://SELF, or one of the launcher's. MPI need not be
 * initialised: Regroup opens a session of its own, and rg_finalize closes it.
 * A program that goes on to use MPI by itself calls MPI_Init, or opens its own
 * session, before that: Open MPI 5.0 and MPICH 4.0 can't begin again once their
 * last session is closed.
 * Collective over the set. ERR_INVALID: MPI knows no such set, or an agent has
 * started this process otherwise than by `regroup run --mpi`, where the world
 * is mpi://WORLD; ERR_UNSUPPORTED: this MPI has no sessions. */
RG_API rg_status rg_init_session(const char *pset, const rg_params *params,
                                 rg_ctx **ctx_p);

/* Make a set of a communicator's processes, in its order. Collective over that
 * communicator alone; a rank that has MPI_COMM_NULL, as from a split with
 * MPI_UNDEFINED, gets NULL at once. comm is not kept. As in MPI, a duplicate
 * makes another set, although its members are the same. A name in params
 * belongs to the members: all row communicators may have the same one, as with
 * rg_set_split. If a set of this name lives with the same members in the same
 * order, the call finds that set again, as with rg_set_create. Ids are the
 * members' own: two ranks that share no set may have sets with the same id. A
 * set takes one of 255 places, which must be free on all members.
 *
 * Errors that all members get when one has them: ERR_INVALID, the communicator
 * has a process outside of the world, or is an inter-communicator, params are
 * wrong, a group is open, set_p is NULL, no place is free, or a set of the name
 * lives with other members; ERR_MISMATCH, their names differ, or only some of
 * them have destroyed the set of the name; ERR_MEMORY. ERR_INVALID also if the
 * world was not started over MPI; for a NULL ctx, on that rank alone.
 * ERR_PEER_LOST: this rank knows that a member's process has ended; a rank that
 * already waits for that process ends (with 75) 5 seconds after it. */
RG_API rg_status rg_set_create_mpi(rg_ctx *ctx, MPI_Comm comm,
                                   const rg_set_params *params, rg_set **set_p);

/* Make a communicator of a set's members, in the set's order, for MPI calls of
 * the program. Collective over the set. The caller owns it and gives it back
 * with MPI_Comm_free; it has the error handler that MPI_COMM_WORLD, or the
 * communicator of rg_init_mpi, had at rg_init. Errors, which all members get
 * when one has them: ERR_INVALID, comm_p is NULL; ERR_MEMORY.
 *
 * Under --mpi=ulfm, after rg_state_resume: it has MPI_ERRORS_RETURN, and is
 * revoked by the next rg_state_resume. If an MPI call on it fails because a
 * rank is lost, call rg_state_resume. */
RG_API rg_status rg_set_mpi_comm(rg_set *set, MPI_Comm *comm_p);

/* The same three for languages that have communicators as integers, such as
 * Fortran: what MPI_Comm_c2f gives, or comm%MPI_VAL there. */
RG_API rg_status rg_init_mpi_fint(int comm, const rg_params *params,
                                  rg_ctx **ctx_p);
RG_API rg_status rg_set_create_mpi_fint(rg_ctx *ctx, int comm,
                                        const rg_set_params *params,
                                        rg_set **set_p);
RG_API rg_status rg_set_mpi_comm_fint(rg_set *set, int *comm_p);

#ifdef __cplusplus
}
#endif
#endif
