/* Members that are lost: their process on this host has ended (peer_watch.h),
 * or MPI itself reports it, by the calls of ULFM, which are looked up when MPI
 * is there. Open MPI 5 has them (and acts on them under `mpirun --with-ft
 * ulfm`), Open MPI 4.1 does not: one library serves both.
 *
 * A member that learns of a loss revokes the set's communicator, so that
 * members that wait for another one on it learn of it too.
 *
 * Called with the engine's lock held, like the comms. */
#ifndef RG_MPI_LOST_H
#define RG_MPI_LOST_H

#include "sdk/transport/mpi/mpi_parts.h"

struct rg__mpi;

/* Look the calls up; may be repeated. */
void rg__lost_look_up(void);
/* Write the address of a function that this MPI may lack; is it there? */
bool rg__mpi_look_up(const char *name, void *function_p);

/* Does this code of an MPI call mean that a member is lost? */
bool rg__lost_is_meant(int code);

/* An operation has failed that way, why: the sentence so far. ERR_PEER_LOST
 * names the lost ranks, IN_PROGRESS: MPI does not know them yet. */
rg_status rg__lost_name(struct rg__mpi *c, const char *why);

/* The calls themselves, for worlds that go on in place. */
bool rg__lost_can_shrink(void);
void rg__lost_revoke(MPI_Comm comm);
int rg__lost_shrink(MPI_Comm comm, MPI_Comm *left_p);
/* all_p: whether it is true on all; false: a rank has died meanwhile. */
bool rg__lost_agree(MPI_Comm comm, int *all_p);
/* In MPI_Finalize, in place of Open MPI's fence: an agreement of these
 * processes, which ends even if one dies. */
void rg__lost_finalize(MPI_Comm left);

/* Receives from any source go on for the members that are left. */
void rg__lost_note(MPI_Comm on);

/* Has that member's process ended? Has any, or has MPI said so? */
bool rg__lost_is(const struct rg__mpi *c, int m);
bool rg__lost_in(const struct rg__mpi *c);

/* Has any process been lost? Then MPI_Finalize may wait forever. */
bool rg__lost_any(void);

#endif
