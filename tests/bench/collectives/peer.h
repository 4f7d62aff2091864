/* The bare MPI beside Regroup, in the same processes: peer_mpi.c. A program
 * that was built without MPI has peer_none.c, where there is no peer.
 *
 * Threads: the one that has called rg_init. Ownership: what peer_open returns
 * is given back to peer_close. What fails ends the program, as MPI does. */
#ifndef TESTS_BENCH_COLLECTIVES_PEER_H
#define TESTS_BENCH_COLLECTIVES_PEER_H

#include <stdbool.h>

#include "tests/bench/collectives/work.h"

typedef struct rg__peer rg__peer;

/* Before rg_init: initialise MPI with that thread level, or leave it to
 * rg_init where level is NULL. False: there is no MPI, or no such level. */
bool peer_begin(const char *level);

/* Behind rg_finalize. */
void peer_end(void);

/* Behind rg_init: "Open MPI v4.1.4, ...", or NULL without a peer. */
const char *peer_name(rg_ctx *ctx);

/* A communicator of the set's members. Collective over the set. */
rg__peer *peer_open(rg_set *set);
void peer_close(rg__peer *p);

/* MPI has this type, op and count. */
bool peer_has(const work *w);

/* The blocking call. */
void peer_run(const work *w);

/* The nonblocking calls of n works, and MPI_Waitall; n at most PEER_MOST. */
#define PEER_MOST 256
void peer_run_all(work *const *works, int n);

void peer_barrier(const rg__peer *p);

#endif
