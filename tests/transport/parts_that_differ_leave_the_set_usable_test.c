/* One rank starts a gather, scatter, alltoall or reduce_scatter between
 * hosts with other counts than the others, or starts another kind: every rank
 * gets ERR_MISMATCH, no byte of what they receive has changed, and the next
 * operation of that kind is right.
 *
 * Covers: schedule.c pairs.c scatter.c counts.c exchange.c */
#include "tests/transport/parts.h"

static void differ(const parts *usual, int odd, parts_kind k, parts_kind other,
                   uint64_t fewer)
{
    rg_req *req = NULL;
    parts p = *usual;
    p.fewer = p.rank == odd ? fewer : 0;
    parts_fill(&p, k);
    const uint64_t before = parts_hash(&p);
    parts_start(&p, p.rank == odd ? other : k, &req);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_MISMATCH);
    CHECK_EQ(parts_hash(&p), before);
}

static void agree(const parts *p, parts_kind k)
{
    rg_req *req = NULL;
    parts_fill(p, k);
    parts_start(p, k, &req);
    CHECK_OK(rg_wait(&req, -1));
    parts_check(p, k);
}

static void all(world *w, void *arg)
{
    (void)arg;
    parts p = parts_create(w);
    const uint64_t large = p.even;
    for (int k = 0; k < KINDS; k++) {
        const int other = k < REDUCE_SCATTER ? REDUCE_SCATTER : ALLTOALLV;
        differ(&p, k % w->n, (parts_kind)k, (parts_kind)k, 1);
        differ(&p, (k + 1) % w->n, (parts_kind)k, (parts_kind)other, 0);
        agree(&p, (parts_kind)k);
        differ(&p, w->n - 1, (parts_kind)k, (parts_kind)k, 50000);
        agree(&p, (parts_kind)k);
        if (!parts_are_even((parts_kind)k))
            continue;
        p.even = 500; /* with the descriptors, if members are alone */
        differ(&p, k % w->n, (parts_kind)k, (parts_kind)k, 1);
        differ(&p, (k + 1) % w->n, (parts_kind)k,
               k == ALLTOALL ? SCATTER : ALLTOALL, 0);
        agree(&p, (parts_kind)k);
        p.even = large;
    }
    parts_destroy(&p);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
