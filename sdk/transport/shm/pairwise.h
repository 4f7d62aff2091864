/* What members send to each other in gathers, scatters, alltoalls and uneven
 * allgathers (on one host pairwise.c, over several schedule.c; counts.c). */
#ifndef RG_SHM_PAIRWISE_H
#define RG_SHM_PAIRWISE_H

#include "sdk/transport/shm/shm_comm.h"

/* Is the kind one of these? */
static inline bool rg__pairwise_has(rg__kind kind)
{
    return rg__kind_is_uneven(kind) || kind == RG__GATHER ||
           kind == RG__SCATTER || kind == RG__ALLTOALL;
}

/* Elements from one set rank to another, and where they begin in what `from`
 * sends and in what `to` receives. With uneven counts, one of the two ranks
 * must be me, and `at` refers to my memory. */
uint64_t rg__pairwise_count(const rg__coll *coll, int me, int from, int to);
uint64_t rg__pairwise_send_at(const rg__coll *coll, int me, int to);
uint64_t rg__pairwise_recv_at(const rg__coll *coll, int me, int from);

/* Where my part for a member lies, and where that of a member belongs. */
static inline const char *rg__pairwise_out(const rg__coll *coll, int me, int to)
{
    return (const char *)coll->send +
           rg__pairwise_send_at(coll, me, to) * rg_type_size(coll->type);
}

static inline char *rg__pairwise_in(const rg__coll *coll, int me, int from)
{
    return (char *)coll->recv +
           rg__pairwise_recv_at(coll, me, from) * rg_type_size(coll->type);
}

/* The turns in which each pair of n members meets once. With even n, all
 * members are paired in every turn: the last member with one of the others,
 * which rotate. With odd n, member m is its own partner in turn 2m. */
int rg__pairwise_turns(int n);
int rg__pairwise_partner(int n, int m, int turn);

/* What I publish in an uneven operation, for each member: the count and the
 * place that I send from, and the count that I receive. */
#define RG__PAIRWISE_COUNTS 3
void rg__pairwise_list(const rg__coll *coll, int me, int n, uint64_t *counts);

/* Do the sent and received counts of all members agree? counts has
 * RG__PAIRWISE_COUNTS * n numbers of each member. ERR_MISMATCH names two
 * ranks. */
rg_status rg__pairwise_compare(uint32_t id, rg__kind kind,
                               const uint64_t *counts, int n);

/* On one host: make once before the first operation, begin for each one. */
rg_status rg__pairwise_make(rg__native *c);
void rg__pairwise_begin(rg__native *c);
void rg__pairwise_publish(rg__native *c);
rg_status rg__pairwise_choose(rg__native *c);
void rg__pairwise_free(rg__native *c);

#endif
