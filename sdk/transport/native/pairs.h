/* What each member sends to each other in gathers, scatters, alltoalls and
 * uneven allgathers (pairs.c: on one host; compose.c: over several;
 * counts.c: for both). */
#ifndef RG_NATIVE_PAIRS_H
#define RG_NATIVE_PAIRS_H

#include "sdk/transport/native/native.h"

/* Is it one of those kinds; has it a count for each rank? */
static inline bool rg__pairs_is_uneven(rg__kind kind)
{
    return kind == RG__ALLGATHERV || kind == RG__GATHERV ||
           kind == RG__SCATTERV || kind == RG__ALLTOALLV;
}

static inline bool rg__pairs_has(rg__kind kind)
{
    return rg__pairs_is_uneven(kind) || kind == RG__GATHER ||
           kind == RG__SCATTER || kind == RG__ALLTOALL;
}

/* Of an operation with equal counts, or of me: elements from one set rank to
 * another, and where they begin in what `from` sends and `to` receives. With
 * uneven counts one of the two must be me, and `at` mine. */
uint64_t rg__pairs_count(const rg__coll *coll, int me, int from, int to);
uint64_t rg__pairs_send_at(const rg__coll *coll, int me, int to);
uint64_t rg__pairs_recv_at(const rg__coll *coll, int me, int from);

/* What I say to the others in an uneven operation: 3 numbers for each member,
 * counts and places that I send and counts that I receive. */
#define RG__PAIRS_SAID 3
void rg__pairs_say(const rg__coll *coll, int me, int n, uint64_t *counts);

/* Do what all have said and what all receive agree? counts: of all members,
 * each RG__PAIRS_SAID * n. The sentence of ERR_MISMATCH names two ranks. */
rg_status rg__pairs_compare(uint32_t id, rg__kind kind, const uint64_t *counts,
                            int n);

/* On one host: before the first operation; when one begins. */
rg_status rg__pairs_make(comm *c);
void rg__pairs_begin(comm *c);
void rg__pairs_publish(comm *c);
rg_status rg__pairs_choose(comm *c);
void rg__pairs_free(comm *c);

#endif
