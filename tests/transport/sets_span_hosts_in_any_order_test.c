/* Sets over several hosts: in an order that alternates between hosts, inside
 * one host of many, with one member on each host; all at the same time, with
 * operations of every size in flight on each.
 *
 * Covers: topology.c native/open.c */
#include "tests/lib/world.h"

#define SETS  6
#define MOST  300000
#define TURNS 6

static const struct {
    int n, ranks[WORLD_MAX];
} wanted[SETS] = {
    {6, {5, 0, 3, 1, 4, 2}}, {3, {0, 2, 4}}, {2, {3, 2}},
    {4, {4, 1, 0, 5}},       {3, {1, 2, 3}}, {2, {0, 5}},
};

typedef struct flight {
    int64_t *send, *sum, *all;
    uint64_t count;
    rg_req *req[3];
} flight;

static uint64_t count_of(int set, int turn)
{
    static const uint64_t counts[] = {1, 12, 13, 700, 40000, MOST / 6};
    return counts[(set + turn) % 6];
}

static int64_t value(int rank, int set, int turn, uint64_t i)
{
    return (int64_t)(i * 31 + (uint64_t)(rank * 7 + set * 3 + turn));
}

static void start(rg_set *set, int rank, int s, int turn, flight *f)
{
    f->count = count_of(s, turn);
    for (uint64_t i = 0; i < f->count; i++)
        f->send[i] = value(rank, s, turn, i);
    CHECK_OK(rg_allreduce_start(set, f->send, f->sum, f->count, RG_I64, RG_SUM,
                                NULL, &f->req[0]));
    CHECK_OK(rg_allgather_start(set, f->send, f->all, f->count, RG_I64, NULL,
                                &f->req[1]));
    CHECK_OK(rg_barrier_start(set, NULL, &f->req[2]));
}

static void finish(int s, int turn, flight *f)
{
    const int n = wanted[s].n;
    CHECK_OK(rg_wait_all(f->req, 3, -1));
    for (uint64_t i = 0; i<f->count; i += f->count> 1000 ? 7 : 1) {
        int64_t sum = 0;
        for (int m = 0; m < n; m++) {
            const int64_t one = value(wanted[s].ranks[m], s, turn, i);
            CHECK_EQ(f->all[(uint64_t)m * f->count + i], one);
            sum += one;
        }
        CHECK_EQ(f->sum[i], sum);
    }
}

static void reserve(flight *f)
{
    f->send = malloc(MOST * sizeof *f->send);
    f->sum = malloc(MOST * sizeof *f->sum);
    f->all = malloc(MOST * sizeof *f->all);
    CHECK(f->send != NULL && f->sum != NULL && f->all != NULL);
}

static void release(flight *f)
{
    free(f->send);
    free(f->sum);
    free(f->all);
}

static bool is_in(const world *w, int s)
{
    for (int m = 0; m < wanted[s].n; m++)
        if (wanted[s].ranks[m] == w->index)
            return true;
    return false;
}

/* Each starts the sets in an order of its own. */
static void all(world *w, void *arg)
{
    (void)arg;
    rg_set *set[SETS];
    flight f[SETS];
    for (int s = 0; s < SETS; s++) {
        CHECK_OK(
            rg_set_create(w->ctx, wanted[s].ranks, wanted[s].n, NULL, &set[s]));
        reserve(&f[s]);
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < SETS; i++) {
            const int s = (i + w->index) % SETS;
            if (is_in(w, s))
                start(set[s], w->index, s, turn, &f[s]);
        }
        for (int s = 0; s < SETS; s++)
            if (is_in(w, s))
                finish(s, turn, &f[s]);
    }
    for (int s = 0; s < SETS; s++)
        release(&f[s]);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
