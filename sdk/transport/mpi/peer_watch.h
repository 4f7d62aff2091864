/* Processes of the world on this host that end, and calls of MPI that wait for
 * others.
 *
 * MPI itself may never report that a process is dead, and a call that waits for
 * one cannot be cancelled. So one thread, from attach to the end of detach,
 * holds a pidfd for each process of the world on this host. A call that may
 * wait is announced to it: it logs that the call takes long, and ends this
 * process if the call can never return, since a member has ended, or if the
 * deadline of all operations (REGROUP_OP_TIMEOUT) has passed.
 *
 * The launcher watches processes of other hosts.
 *
 * Failpoints: the name of each such call.
 * Threads: any. The thread calls no MPI. */
#ifndef RG_MPI_PEER_WATCH_H
#define RG_MPI_PEER_WATCH_H

#include "regroup/regroup.h"

#include <stdbool.h>
#include <stdint.h>

/* How others on the host find a process; 0: it can't be watched. */
typedef struct rg__pid {
    int32_t pid;
    uint64_t space; /* the namespace of its number */
} rg__pid;

rg_status rg__watch_start(void);
void rg__watch_stop(void);

rg__pid rg__watch_me(void);

/* The world's processes, by rank; those of other hosts have pid 0. */
rg_status rg__watch_world(const rg__pid *all, int size);

/* The slot of rg__launcher. */
void rg__watch_tell(void (*lost)(void *arg, int rank), void *arg);

/* Has that rank's process ended, so long ago that all it sent has arrived? */
bool rg__watch_has_ended(int rank);
bool rg__watch_has_any_ended(void);
/* ERR_PEER_LOST: one of these ranks has ended, so an MPI call that waits for it
 * would never return. what: the name of Regroup's call. */
rg_status rg__watch_check(const char *what, const int *ranks, int n);

/* A call of MPI that may wait for n ranks of the world; ranks NULL: for all.
 * Borrowed from enter to leave, which are called on one thread. */
typedef struct rg__wait {
    const char *call;
    const int *ranks;
    int n;
    uint64_t since_ns; /* for peer_watch.c, like the rest */
    bool is_told;
    struct rg__wait *next;
} rg__wait;

void rg__watch_enter(rg__wait *wait);
void rg__watch_leave(rg__wait *wait);

#endif
