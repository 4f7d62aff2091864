/* Large gathers, scatters, alltoalls and reduce_scatters between hosts, with
 * equal and with unequal counts, and reduces: the results are right, and the
 * hosts send each other what pairs need and no more: a part to its member,
 * once; of a sum, each host what it has for a member, once. Only a reduce
 * passes other hosts, which add to it. Small parts for members that are alone
 * on 2, 4 or 8 hosts pass other hosts with the descriptors, too, and need no
 * connections but those.
 *
 *     NAME HOSTS...    a digit for each rank: the host that it is on
 *
 * Covers: pairs.c scatter.c schedule.c counts.c part.c exchange.c payload.c */
#include "sdk/core/engine_parts.h"
#include "sdk/transport/inter/inter.h"
#include "tests/transport/parts.h"

#define SPARE ((uint64_t)64 << 10) /* heads of frames, descriptors, counts */

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
static uint64_t least(const world *w, const parts *p, parts_kind k)
{
    uint64_t elements = 0;
    const bool is_sum = k >= REDUCE_SCATTER;
    bool is_first = true;
    for (int r = 0; r < w->index; r++)
        is_first &= w->host_of[r] != w->host_of[w->index];
    for (int r = 0; r < w->n && (!is_sum || is_first); r++)
        if (w->host_of[r] != w->host_of[w->index])
            elements += parts_count(p, k, w->index, r);
    return elements * sizeof(int64_t);
}

static void check_bytes(world *w, const parts *p, parts_kind k, uint64_t before)
{
    _Atomic uint64_t *sums = world_word(w, 2 * (int)k);
    atomic_fetch_add(&sums[0], written(w) - before);
    atomic_fetch_add(&sums[1], least(w, p, k));
    world_meet(w);
    const uint64_t sent = atomic_load(&sums[0]);
    const uint64_t needed = atomic_load(&sums[1]);
    if (sent < needed || sent > needed + SPARE)
        CHECK_FAIL("hosts sent each other %llu bytes, and kind %d needs %llu",
                   (unsigned long long)sent, (int)k,
                   (unsigned long long)needed);
}

static void one_kind(world *w, const parts *p, parts_kind k)
{
    rg_req *req = NULL;
    parts_fill(p, k);
    world_meet(w);
    const uint64_t before = written(w);
    world_meet(w);
    parts_start(p, k, &req);
    CHECK_OK(rg_wait(&req, -1));
    parts_check(p, k);
    world_meet(w);
    check_bytes(w, p, k, before);
}

static int links(world *w)
{
    rg__engine *e = w->ctx->engine;
    pthread_mutex_lock(&e->lock);
    const int n = ((const rg__native *)e->world->comm)->inter->links;
    pthread_mutex_unlock(&e->lock);
    return n;
}

static void small(world *w, parts *p)
{
    static const parts_kind kinds[] = {SCATTER, ALLTOALL, REDUCE_SCATTER};
    const uint64_t large = p->even;
    const uint64_t most = SMALL_ALL / sizeof(int64_t) / (uint64_t)w->n;
    const uint64_t sizes[] = {0, 1, 17, most, 2 * most, 2 * most + 1};
    const int before = links(w);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 3; k++) {
            rg_req *req = NULL;
            p->even = sizes[i];
            parts_fill(p, kinds[k]);
            parts_start(p, kinds[k], &req);
            CHECK_OK(rg_wait(&req, -1));
            parts_check(p, kinds[k]);
            CHECK(w->n != 8 || sizes[i] > most || links(w) == before);
        }
    CHECK(w->n != 8 || links(w) > before);
    p->even = large;
}

static void all(world *w, void *arg)
{
    (void)arg;
    parts p = parts_create(w);
    small(w, &p);
    for (int k = 0; w->n < 8 && k < KINDS; k++)
        one_kind(w, &p, (parts_kind)k);
    parts_destroy(&p);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
