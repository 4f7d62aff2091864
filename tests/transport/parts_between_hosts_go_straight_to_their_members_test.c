/* Large gathers, scatters, alltoalls and reduce_scatters between hosts, with
 * equal and with unequal counts: the results are right, and the hosts send each
 * other what pairs need and no more: a part to its member, once; of a sum, each
 * host what it has for a member, once. So nothing passes a third host.
 *
 *     NAME HOSTS...    a digit for each rank: the host that it is on
 *
 * Covers: pairs.c scatter.c schedule.c counts.c part.c */
#include <stdlib.h>
#include <string.h>

#include "sdk/core/engine_parts.h"
#include "sdk/transport/inter/inter.h"
#include "tests/lib/world.h"

#define MOST  ((uint64_t)150000) /* elements from one to another: many chunks */
#define SPARE ((uint64_t)64 << 10) /* heads of frames, descriptors, counts */
#define WIDE  ((uint64_t)WORLD_MAX * MOST)

typedef enum what {
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    IN_PLACE,
    REDUCE_SCATTER,
    REDUCE_SCATTERV,
    KINDS
} what;

typedef struct place {
    uint64_t counts[WORLD_MAX], places[WORLD_MAX];
} place;

static int64_t *send_at, *recv_at;

static bool is_uneven(what k)
{
    return k == GATHERV || k == SCATTERV || k == ALLTOALLV || k == IN_PLACE ||
           k == REDUCE_SCATTERV;
}

/* Symmetrical, for a program in place; some send nothing. */
static uint64_t count_of(const world *w, what k, int from, int to)
{
    const int root = w->n - 1;
    if (k == REDUCE_SCATTERV)
        return to == 0 ? 0 : MOST / 2 - (uint64_t)to * 977;
    if ((k == GATHER || k == GATHERV) && to != root)
        return 0;
    if ((k == SCATTER || k == SCATTERV) && from != root)
        return 0;
    return !is_uneven(k)
               ? MOST / 2 - 1
               : MOST / (uint64_t)(1 + (from + to) % 4) - (uint64_t)(from * to);
}

static int64_t value(int from, int to, uint64_t i)
{
    return (int64_t)(i * 8191 + (uint64_t)(from * 100 + to));
}

static place place_of(const world *w, what k, bool is_sent)
{
    place p = {0};
    uint64_t at = 0;
    for (int r = 0; r < w->n; r++) {
        const bool is_packed = !is_uneven(k) || k == REDUCE_SCATTERV;
        p.counts[r] =
            is_sent ? count_of(w, k, w->index, r) : count_of(w, k, r, w->index);
        p.places[r] = is_packed ? at : (uint64_t)r * MOST;
        at += p.counts[r];
    }
    return p;
}

/* Bytes that this rank has written to other hosts. */
static uint64_t written(world *w)
{
    rg__engine *e = w->ctx->engine;
    uint64_t bytes = 0;
    pthread_mutex_lock(&e->lock);
    const rg__native *c = (const rg__native *)e->world->comm;
    const rg__net *net = c->shared->net;
    for (const rg__link *l = net->links; l != NULL; l = l->next)
        bytes += l->written;
    pthread_mutex_unlock(&e->lock);
    return bytes;
}

/* What this rank, or for a sum its host, sends to others at least. */
static uint64_t least(const world *w, what k)
{
    uint64_t elements = 0;
    const bool is_sum = k == REDUCE_SCATTER || k == REDUCE_SCATTERV;
    bool is_first = true;
    for (int r = 0; r < w->index; r++)
        is_first &= w->host_of[r] != w->host_of[w->index];
    for (int r = 0; r < w->n && (!is_sum || is_first); r++)
        if (w->host_of[r] != w->host_of[w->index])
            elements += count_of(w, k, w->index, r);
    return elements * sizeof(int64_t);
}

static void call(const world *w, what k, int64_t *send)
{
    rg_set *all = rg_world(w->ctx);
    const int root = w->n - 1;
    const place out = place_of(w, k, true), in = place_of(w, k, false);
    const uint64_t even = MOST / 2 - 1;
    const rg_op_params params = {.size = sizeof params, .root = root};
    rg_status st = RG_OK;
    rg_req *req = NULL;
    switch (k) {
    case GATHER:
        st = rg_gather_start(all, send, recv_at, even, RG_I64, &params, &req);
        break;
    case GATHERV:
        st = rg_gatherv_start(all, send + out.places[root], out.counts[root],
                              recv_at, in.counts, in.places, RG_I64, &params,
                              &req);
        break;
    case SCATTER:
        st = rg_scatter_start(all, send, recv_at, even, RG_I64, &params, &req);
        break;
    case SCATTERV:
        st = rg_scatterv_start(all, send, out.counts, out.places,
                               recv_at + in.places[root], in.counts[root],
                               RG_I64, &params, &req);
        break;
    case ALLTOALL:
        st = rg_alltoall_start(all, send, recv_at, even, RG_I64, NULL, &req);
        break;
    case ALLTOALLV:
    case IN_PLACE:
        st = rg_alltoallv_start(all, send, out.counts, out.places, recv_at,
                                in.counts, in.places, RG_I64, NULL, &req);
        break;
    case REDUCE_SCATTER:
        st = rg_reduce_scatter_start(all, send, recv_at, even, RG_I64, RG_SUM,
                                     NULL, &req);
        break;
    default:
        st = rg_reduce_scatterv_start(all, send, recv_at, out.counts, RG_I64,
                                      RG_SUM, NULL, &req);
        break;
    }
    CHECK_OK(st);
    CHECK_OK(rg_wait(&req, -1));
}

static void check_sum(const world *w, what k)
{
    const uint64_t count = count_of(w, k, 0, w->index);
    for (uint64_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int r = 0; r < w->n; r++)
            sum += value(r, w->index, i);
        if (recv_at[i] != sum)
            CHECK_FAIL("element %llu of kind %d is wrong",
                       (unsigned long long)i, (int)k);
    }
}

static void check(const world *w, what k)
{
    const place in = place_of(w, k, false);
    for (int r = 0; r < w->n; r++)
        for (uint64_t i = 0; i < in.counts[r]; i++)
            if (recv_at[in.places[r] + i] != value(r, w->index, i))
                CHECK_FAIL("element %llu of kind %d from rank %d is wrong",
                           (unsigned long long)i, (int)k, r);
}

static void check_bytes(world *w, what k, uint64_t before)
{
    _Atomic uint64_t *sums = world_word(w, 2 * (int)k);
    atomic_fetch_add(&sums[0], written(w) - before);
    atomic_fetch_add(&sums[1], least(w, k));
    world_meet(w);
    const uint64_t sent = atomic_load(&sums[0]);
    const uint64_t needed = atomic_load(&sums[1]);
    if (sent < needed || sent > needed + SPARE)
        CHECK_FAIL("hosts sent each other %llu bytes, and kind %d needs %llu",
                   (unsigned long long)sent, (int)k,
                   (unsigned long long)needed);
}

static void one_kind(world *w, what k)
{
    const place out = place_of(w, k, true);
    int64_t *send = k == IN_PLACE ? recv_at : send_at;
    memset(recv_at, 0x55, WIDE * sizeof *recv_at);
    for (int r = 0; r < w->n; r++)
        for (uint64_t i = 0; i < out.counts[r]; i++)
            send[out.places[r] + i] = value(w->index, r, i);
    world_meet(w);
    const uint64_t before = written(w);
    world_meet(w);
    call(w, k, send);
    if (k == REDUCE_SCATTER || k == REDUCE_SCATTERV)
        check_sum(w, k);
    else
        check(w, k);
    world_meet(w);
    check_bytes(w, k, before);
}

static void all(world *w, void *arg)
{
    (void)arg;
    send_at = calloc(WIDE, sizeof *send_at);
    recv_at = calloc(WIDE, sizeof *recv_at);
    CHECK(send_at != NULL && recv_at != NULL);
    for (int k = 0; k < KINDS; k++)
        one_kind(w, (what)k);
    free(send_at);
    free(recv_at);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
