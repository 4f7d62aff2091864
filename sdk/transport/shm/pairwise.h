/* What each member sends to each other in gathers, scatters, alltoalls and
 * uneven allgathers (pairwise.c: on one host; schedule.c: over several;
 * counts.c: for both). */
#ifndef RG_SHM_PAIRWISE_H
#define RG_SHM_PAIRWISE_H

#include "sdk/transport/shm/shm_comm.h"

/* Is it one of those kinds? */
static inline bool rg__pairwise_has(rg__kind kind)
{
    return rg__kind_is_uneven(kind) || kind == RG__GATHER ||
           kind == RG__SCATTER || kind == RG__ALLTOALL;
}

/* Of an operation with equal counts, or of me: elements from one set rank to
 * another, and where they begin in what `from` sends and `to` receives. With
 * uneven counts one of the two must be me, and `at` mine. */
uint64_t rg__pairwise_count(const rg__coll *coll, int me, int from, int to);
uint64_t rg__pairwise_send_at(const rg__coll *coll, int me, int to);
uint64_t rg__pairwise_recv_at(const rg__coll *coll, int me, int from);

/* Turns in which all pairs of n meet once. An even number are all paired in
 * each turn: the last one with one of the others, which rotate. Of an odd
 * number, m is alone in turn 2m: its own partner. */
int rg__pairwise_turns(int n);
int rg__pairwise_partner(int n, int m, int turn);

/* What I publish in an uneven operation: 3 numbers for each member,
 * counts and places that I send and counts that I receive. */
#define RG__PAIRWISE_COUNTS 3
void rg__pairwise_list(const rg__coll *coll, int me, int n, uint64_t *counts);

/* Do the sent and received counts of all members agree? counts: of all members,
 * each RG__PAIRWISE_COUNTS * n. The sentence of ERR_MISMATCH names two ranks.
 */
rg_status rg__pairwise_compare(uint32_t id, rg__kind kind,
                               const uint64_t *counts, int n);

/* On one host: before the first operation; when one begins. */
rg_status rg__pairwise_make(rg__native *c);
void rg__pairwise_begin(rg__native *c);
void rg__pairwise_publish(rg__native *c);
rg_status rg__pairwise_choose(rg__native *c);
void rg__pairwise_free(rg__native *c);

#endif
