#include "tests/transport/parts.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/unseen.h"

#define MOST ((uint64_t)110000) /* elements from one to another: many chunks */
#define EVEN (MOST / 2 - 1)

typedef struct place {
    uint64_t counts[WORLD_MAX], places[WORLD_MAX];
} place;

/* Elements that all ranks' parts have room in. */
static uint64_t room_of(const parts *p)
{
    return (uint64_t)p->n * MOST;
}

parts parts_create(const world *w)
{
    parts p = {
        .set = rg_world(w->ctx), .n = w->n, .rank = w->index, .even = EVEN};
    p.send = calloc(room_of(&p), sizeof *p.send);
    p.recv = calloc(room_of(&p), sizeof *p.recv);
    CHECK(p.send != NULL && p.recv != NULL);
    return p;
}

void parts_destroy(parts *p)
{
    free(p->send);
    free(p->recv);
}

static bool is_sum(parts_kind k)
{
    return k >= REDUCE_SCATTER;
}

bool parts_are_even(parts_kind k)
{
    return k != GATHERV && k != SCATTERV && k != ALLTOALLV && k != IN_PLACE &&
           k != REDUCE_SCATTERV;
}

/* Symmetrical, for a program in place. */
static uint64_t usual_count(const parts *p, parts_kind k, int from, int to)
{
    const int root = p->n - 1;
    if (k == REDUCE_SCATTERV)
        return to == 0 ? 0 : MOST / 2 - (uint64_t)to * 977;
    if ((k == GATHER || k == GATHERV || k == REDUCE) && to != root)
        return 0;
    if ((k == SCATTER || k == SCATTERV) && from != root)
        return 0;
    return parts_are_even(k)
               ? p->even
               : MOST / (uint64_t)(1 + (from + to) % 4) - (uint64_t)(from * to);
}

uint64_t parts_count(const parts *p, parts_kind k, int from, int to)
{
    const uint64_t usual = usual_count(p, k, from, to);
    return usual > p->fewer ? usual - p->fewer : usual;
}

RG__UNSEEN static int64_t value(int from, int to, uint64_t i)
{
    return (int64_t)(i * 8191 + (uint64_t)(from * 100 + to));
}

static place place_of(const parts *p, parts_kind k, bool is_sent)
{
    place at = {0};
    uint64_t end = 0;
    for (int r = 0; r < p->n; r++) {
        const bool is_packed = parts_are_even(k) || k == REDUCE_SCATTERV;
        at.counts[r] = is_sent ? parts_count(p, k, p->rank, r)
                               : parts_count(p, k, r, p->rank);
        at.places[r] = is_packed ? end : (uint64_t)r * MOST;
        end += at.counts[r];
    }
    return at;
}

RG__UNSEEN static void fill(int64_t *to, uint64_t n, int from, int whose)
{
    RG__WRITES(to, n * sizeof *to);
    for (uint64_t i = 0; i < n; i++)
        to[i] = value(from, whose, i);
}

void parts_fill(const parts *p, parts_kind k)
{
    const place out = place_of(p, k, true);
    int64_t *send = k == IN_PLACE ? p->recv : p->send;
    memset(p->recv, 0x55, room_of(p) * sizeof *p->recv);
    for (int r = 0; r < p->n; r++)
        fill(send + out.places[r], out.counts[r], p->rank, r);
}

static rg_status start(const parts *p, parts_kind k, rg_req **req_p)
{
    const place out = place_of(p, k, true), in = place_of(p, k, false);
    const int root = p->n - 1;
    const rg_op_params params = {.size = sizeof params, .root = root};
    const int64_t *send = k == IN_PLACE ? p->recv : p->send;
    const uint64_t even = p->even - p->fewer;
    switch (k) {
    case GATHER:
        return rg_gather_start(p->set, send, p->recv, even, RG_I64, &params,
                               req_p);
    case GATHERV:
        return rg_gatherv_start(p->set, send + out.places[root],
                                out.counts[root], p->recv, in.counts, in.places,
                                RG_I64, &params, req_p);
    case SCATTER:
        return rg_scatter_start(p->set, send, p->recv, even, RG_I64, &params,
                                req_p);
    case SCATTERV:
        return rg_scatterv_start(p->set, send, out.counts, out.places,
                                 p->recv + in.places[root], in.counts[root],
                                 RG_I64, &params, req_p);
    case ALLTOALL:
        return rg_alltoall_start(p->set, send, p->recv, even, RG_I64, NULL,
                                 req_p);
    case ALLTOALLV:
    case IN_PLACE:
        return rg_alltoallv_start(p->set, send, out.counts, out.places, p->recv,
                                  in.counts, in.places, RG_I64, NULL, req_p);
    case REDUCE_SCATTER:
        return rg_reduce_scatter_start(p->set, send, p->recv, even, RG_I64,
                                       RG_SUM, NULL, req_p);
    case REDUCE_SCATTERV:
        return rg_reduce_scatterv_start(p->set, send, p->recv, out.counts,
                                        RG_I64, RG_SUM, NULL, req_p);
    default:
        return rg_reduce_start(p->set, send, p->recv, even, RG_I64, RG_SUM,
                               &params, req_p);
    }
}

void parts_start(const parts *p, parts_kind k, rg_req **req_p)
{
    *req_p = NULL;
    CHECK_OK(start(p, k, req_p));
}

RG__UNSEEN static int64_t sum_of(int n, int rank, uint64_t i)
{
    int64_t sum = 0;
    for (int r = 0; r < n; r++)
        sum += value(r, rank, i);
    return sum;
}

/* The first element that is wrong, or n. */
RG__UNSEEN static uint64_t first_wrong(const parts *p, const int64_t *got,
                                       uint64_t n, int from, bool is_summed)
{
    const int ranks = p->n, rank = p->rank;
    uint64_t i = 0;
    RG__READS(got, n * sizeof *got);
    while (i < n && got[i] == (is_summed ? sum_of(ranks, rank, i)
                                         : value(from, rank, i)))
        i++;
    return i;
}

void parts_check(const parts *p, parts_kind k)
{
    const place in = place_of(p, k, false);
    for (int r = 0; r < (is_sum(k) ? 1 : p->n); r++) {
        const uint64_t i =
            first_wrong(p, p->recv + in.places[r], in.counts[r], r, is_sum(k));
        if (i < in.counts[r])
            CHECK_FAIL("element %llu of kind %d from rank %d is wrong",
                       (unsigned long long)i, (int)k, r);
    }
}

RG__UNSEEN uint64_t parts_hash(const parts *p)
{
    const uint64_t n = room_of(p);
    uint64_t hash = 0;
    RG__READS(p->recv, n * sizeof *p->recv);
    for (uint64_t i = 0; i < n; i++)
        hash = hash * 31 + (uint64_t)p->recv[i];
    return hash;
}
