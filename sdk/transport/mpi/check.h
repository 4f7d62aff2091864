/* REGROUP_CHECK=late: members tell each other, beside the operations, what they
 * have started, so that a difference is named even though it was not prevented.
 *
 *   routine     now and then a member tells its right neighbour the number and
 *               the descriptor of its newest operation, a digest of all before
 *               it, and what it knows of how far all members are
 *   stall       a member that waits for long tells all members
 *   alarm       a member that learns of a difference tells all members its
 *               descriptor of that operation; once it has all of theirs it
 *               gives the verdict, the same on all members
 *   pair        a member whose count is not what another one expects is
 *               reported to all, and all give that verdict
 *   goodbye     a member that ends Regroup tells all which operation it has
 *               started last; a wait in a later one can't end, and the engine
 *               says so
 *
 * However far members are apart, a difference is found while all of them stay:
 * digests are kept until all members have ended their operations. Descriptors
 * are not; without one the operation is named by its number. A member that ran
 * ahead with other operations and has left by then does not answer, and others
 * may wait for it forever.
 *
 * One receive per process is posted, on a communicator of its own. A word about
 * a set that is gone here is dropped, and so is a routine word if no slot is
 * free to send it: the next one carries the same. Words that are on their way
 * when a set goes are counted, and waited for when the world goes. */
#ifndef RG_MPI_CHECK_H
#define RG_MPI_CHECK_H

#include "sdk/transport/mpi/mpi_comm.h"

/* Open with the world, close before the world is given back. Collective. */
rg_status rg__check_open(void);
void rg__check_close(void);

/* A comm takes part from join to part; ranks are world ranks, copied. */
rg_status rg__check_join(rg__mpi *c, const int *ranks);
void rg__check_part(rg__mpi *c);

/* This process ends: tell all members of all comms. */
void rg__check_goodbye(void);

/* Members that have said goodbye, and so never start the operation in flight:
 * writes at most `room` of them; returns how many. */
int rg__check_left(const rg__mpi *c, int *ranks, int room);
/* Is it known that this member has called rg_finalize? */
bool rg__check_has_left(const rg__mpi *c, int m);

uint64_t rg__check_hash(const rg__descriptor *descriptor);

void rg__check_started(rg__mpi *c);
void rg__check_ended(rg__mpi *c);

/* The counts of two members differ: ERR_MISMATCH on all members. */
rg_status rg__check_differs(rg__mpi *c, const rg__pair *p);

/* Nothing has moved. RG_OK, or the verdict. */
rg_status rg__check_waits(rg__mpi *c);

/* MPI has failed: wait for a verdict for a while (IN_PROGRESS), then give up
 * with MPI's sentence. */
rg_status rg__check_failed(rg__mpi *c, rg_status st, const char *why);

/* The verdict so far: RG_OK, or ERR_MISMATCH with its sentence. */
rg_status rg__check_verdict(const rg__mpi *c);

#endif
