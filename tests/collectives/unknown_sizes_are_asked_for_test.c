/* Results of unknown size: each rank knows what it sends and nothing else, asks
 * for the counts as the header says, allocates what will come, and receives
 * every element in its place. Zero elements are among the sizes.
 *
 * Covers: counts.c */
#include <stdlib.h>

#include "tests/lib/world.h"

/* What rank a gives rank b, or all of them where b is 0; known to a alone. */
static uint64_t given(int a, int b, int round)
{
    return (uint64_t)((a * 5 + b * 3 + round * 7) % 11) * (a == 1 ? 100 : 1);
}

static int64_t element(int a, int b, uint64_t i)
{
    return (int64_t)a * 1000000 + b * 100000 + (int64_t)i;
}

typedef struct parcel {
    uint64_t counts[WORLD_MAX], n; /* of each rank, and of all */
    int64_t *data;                 /* n of them; freed by drop */
} parcel;

static void make_room(parcel *p, int size)
{
    p->n = 0;
    for (int r = 0; r < size; r++)
        p->n += p->counts[r];
    p->data = calloc(p->n + 1, sizeof *p->data);
    CHECK(p->data != NULL);
}

static void drop(parcel *p)
{
    free(p->data);
    p->data = NULL;
}

/* What this rank has for `size` others, or for one when size is 1. */
static parcel pack(int me, int size, int round)
{
    parcel p = {0};
    for (int b = 0; b < size; b++)
        p.counts[b] = given(me, b, round);
    make_room(&p, size);
    uint64_t at = 0;
    for (int b = 0; b < size; b++)
        for (uint64_t i = 0; i < p.counts[b]; i++)
            p.data[at++] = element(me, b, i);
    return p;
}

/* From every rank a part for b. */
static void check_parts(const parcel *p, int size, int b)
{
    uint64_t at = 0;
    for (int a = 0; a < size; a++) {
        for (uint64_t i = 0; i < p->counts[a]; i++)
            CHECK_EQ(p->data[at + i], element(a, b, i));
        at += p->counts[a];
    }
    CHECK_EQ(at, p->n);
}

static void all_from_all(rg_set *set, int size, int round)
{
    rg_req *req = NULL;
    parcel mine = pack(rg_set_rank(set), 1, round), all = {0};
    CHECK_OK(rg_allgather(set, mine.counts, all.counts, 1, RG_U64));
    make_room(&all, size);
    CHECK_OK(rg_allgatherv_start(set, mine.data, mine.n, all.data, all.counts,
                                 NULL, RG_I64, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    check_parts(&all, size, 0);
    drop(&mine);
    drop(&all);
}

static void each_from_each(rg_set *set, int size, int round)
{
    rg_req *req = NULL;
    parcel mine = pack(rg_set_rank(set), size, round), all = {0};
    CHECK_OK(rg_alltoall(set, mine.counts, all.counts, 1, RG_U64));
    make_room(&all, size);
    CHECK_OK(rg_alltoallv_start(set, mine.data, mine.counts, NULL, all.data,
                                all.counts, NULL, RG_I64, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    check_parts(&all, size, rg_set_rank(set));
    drop(&mine);
    drop(&all);
}

static void root_from_all(rg_set *set, int size, int round)
{
    rg_req *req = NULL;
    const int root = round % size;
    const rg_op_params params = {.size = sizeof params, .root = root};
    parcel mine = pack(rg_set_rank(set), 1, round), all = {0};
    CHECK_OK(rg_gather(set, mine.counts, all.counts, 1, RG_U64, root));
    make_room(&all, rg_set_rank(set) == root ? size : 0);
    CHECK_OK(rg_gatherv_start(set, mine.data, mine.n, all.data, all.counts,
                              NULL, RG_I64, &params, &req));
    CHECK_OK(rg_wait(&req, -1));
    if (rg_set_rank(set) == root)
        check_parts(&all, size, 0);
    drop(&mine);
    drop(&all);
}

static void all_from_root(rg_set *set, int size, int round)
{
    rg_req *req = NULL;
    const int root = round % size, me = rg_set_rank(set);
    const rg_op_params params = {.size = sizeof params, .root = root};
    parcel all = pack(root, me == root ? size : 0, round), mine = {0};
    CHECK_OK(rg_scatter(set, all.counts, mine.counts, 1, RG_U64, root));
    make_room(&mine, 1);
    CHECK_OK(rg_scatterv_start(set, all.data, all.counts, NULL, mine.data,
                               mine.n, RG_I64, &params, &req));
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(mine.n, given(root, me, round));
    for (uint64_t i = 0; i < mine.n; i++)
        CHECK_EQ(mine.data[i], element(root, me, i));
    CHECK_OK(rg_broadcast(set, mine.counts, 1, RG_U64, root));
    CHECK_EQ(mine.counts[0], given(root, root, round));
    drop(&mine);
    drop(&all);
}

static void all(world *w, void *arg)
{
    static const int odd[] = {3, 1};
    rg_set *set = NULL;
    (void)arg;
    CHECK_OK(rg_set_create(w->ctx, odd, 2, NULL, &set));
    for (int round = 0; round < 8; round++)
        for (int k = 0; k < 2; k++) {
            rg_set *on = k == 0 ? rg_world(w->ctx) : set;
            if (rg_set_rank(on) < 0)
                continue;
            all_from_all(on, rg_set_size(on), round);
            each_from_each(on, rg_set_size(on), round);
            root_from_all(on, rg_set_size(on), round);
            all_from_root(on, rg_set_size(on), round);
        }
}

int main(void)
{
    world_of(4, all, NULL);
    return 0;
}
