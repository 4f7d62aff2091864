/* Counts and places of gathers, scatters, alltoalls and uneven allgathers: what
 * a call asks for, and whether the counts of all members agree. */
#include "sdk/base/fail.h"
#include "sdk/transport/shm/pairwise.h"

int rg__pairwise_turns(int n)
{
    return n % 2 == 0 ? n - 1 : n;
}

int rg__pairwise_partner(int n, int m, int turn)
{
    const int round = rg__pairwise_turns(n);
    if (m == round) /* the partner that would otherwise be alone */
        return turn % 2 == 0 ? turn / 2 : (turn + round) / 2;
    const int other = (turn - m + round) % round;
    return other == m && n % 2 == 0 ? round : other;
}

uint64_t rg__pairwise_count(const rg__coll *o, int me, int from, int to)
{
    switch (o->kind) {
    case RG__GATHER:
        return to == o->root ? o->count : 0;
    case RG__SCATTER:
        return from == o->root ? o->count : 0;
    case RG__ALLTOALL:
        return o->count;
    case RG__ALLGATHERV:
        return o->recv_counts[from];
    case RG__GATHERV:
        if (to != o->root)
            return 0;
        return me == to ? o->recv_counts[from] : o->count;
    case RG__SCATTERV:
        if (from != o->root)
            return 0;
        return me == from ? o->send_counts[to] : o->count;
    case RG__ALLTOALLV:
        return me == from ? o->send_counts[to] : o->recv_counts[from];
    default:
        return 0;
    }
}

uint64_t rg__pairwise_send_at(const rg__coll *o, int me, int to)
{
    switch (o->kind) {
    case RG__SCATTER:
    case RG__ALLTOALL:
        return (uint64_t)to * o->count;
    case RG__SCATTERV:
        return me == o->root ? o->send_places[to] : 0;
    case RG__ALLTOALLV:
        return o->send_places[to];
    default:
        return 0;
    }
}

uint64_t rg__pairwise_recv_at(const rg__coll *o, int me, int from)
{
    switch (o->kind) {
    case RG__GATHER:
    case RG__ALLTOALL:
        return (uint64_t)from * o->count;
    case RG__GATHERV:
        return me == o->root ? o->recv_places[from] : 0;
    case RG__ALLGATHERV:
    case RG__ALLTOALLV:
        return o->recv_places[from];
    default:
        return 0;
    }
}

void rg__pairwise_list(const rg__coll *o, int me, int n, uint64_t *counts)
{
    for (int r = 0; r < n; r++) {
        counts[r] = rg__pairwise_count(o, me, me, r);
        counts[n + r] = rg__pairwise_send_at(o, me, r);
        counts[2 * n + r] = rg__pairwise_count(o, me, r, me);
    }
}

/* More than memory holds; the bytes of all members together fit 64 bits. */
#define COUNT_MAX (UINT64_C(1) << 48)

static rg_status refuse_two_counts(uint32_t id, int from, int to, uint64_t one,
                                   uint64_t other)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "allgatherv on %s: rank %d sends %llu elements to rank "
                    "%d and %llu to itself, where all get the same; some "
                    "worker writes over shared memory",
                    rg__set_words(id).text, from, (unsigned long long)one, to,
                    (unsigned long long)other);
}

rg_status rg__pairwise_compare(uint32_t id, rg__kind kind,
                               const uint64_t *counts, int n)
{
    const size_t each = (size_t)(RG__PAIRWISE_COUNTS * n);
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            const uint64_t out = counts[(size_t)from * each + (size_t)to];
            const uint64_t in =
                counts[(size_t)to * each + (size_t)(2 * n + from)];
            const uint64_t own = counts[(size_t)from * each + (size_t)from];
            if (out != in || out > COUNT_MAX)
                return rg__fail(
                    RG_ERR_MISMATCH,
                    "%s on %s: rank %d sends %llu elements to rank %d, "
                    "which expects %llu; give the same count on both",
                    rg__kind_name(kind), rg__set_words(id).text, from,
                    (unsigned long long)out, to, (unsigned long long)in);
            if (kind == RG__ALLGATHERV && out != own)
                return refuse_two_counts(id, from, to, out, own);
        }
    return RG_OK;
}
