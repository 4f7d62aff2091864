/* Five sets, one thread on each at every member, random operations whose
 * results are known; the generation is aborted at a random moment, all members
 * meet in the next one with other ranks, and the last one runs to its end.
 *
 * Covers: sets.c table.c */
#include <time.h>

#include "tests/lib/world.h"

#define SETS        5
#define GENERATIONS 4
#define OPS         60 /* of each set in the last generation */
#define ROOM        400000

typedef struct script { /* a set's operations, equal on all its members */
    world *w;
    rg_set *set;
    int rank, size; /* as this generation has them */
    uint64_t state;
    int ops; /* 0: until the generation ends */
    char *own, *shared;
} script;

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t pick_bytes(uint64_t r)
{
    static const uint64_t tops[] = {1, 90, 200, 5000, 20000, 60000};
    return r % tops[r / 64 % 6] + 1;
}

static rg_status reduce(const script *s, char *send, char *recv, uint64_t n)
{
    memset(send, s->rank + 1, n);
    const rg_status st = rg_allreduce(s->set, send, recv, n, RG_U8, RG_MAX);
    for (uint64_t i = 0; i < n && st == RG_OK; i++)
        CHECK_EQ(recv[i], s->size);
    return st;
}

static rg_status broadcast(const script *s, char *data, uint64_t n, int root)
{
    memset(data, s->rank == root ? 33 : 44, n);
    const rg_status st = rg_broadcast(s->set, data, n, RG_U8, root);
    for (uint64_t i = 0; i < n && st == RG_OK; i++)
        CHECK_EQ(data[i], 33);
    return st;
}

static rg_status gather(const script *s, char *send, char *recv, uint64_t n)
{
    memset(send, s->rank + 1, n);
    const rg_status st = rg_allgather(s->set, send, recv, n, RG_U8);
    for (uint64_t i = 0; i < n * (uint64_t)s->size && st == RG_OK; i++)
        CHECK_EQ(recv[i], i / n + 1);
    return st;
}

static rg_status run_one(script *s)
{
    const uint64_t r = next_random(&s->state), n = pick_bytes(r >> 8);
    char *at = r / 16 % 2 == 0 ? s->own : s->shared;
    switch (r % 4) {
    case 0:
        return reduce(s, at, r & 128 ? at : at + ROOM / 2, n);
    case 1:
        return broadcast(s, at, n, (int)(r / 1024 % (uint64_t)s->size));
    case 2:
        return gather(s, at, at + ROOM / 4, n);
    default:
        return rg_barrier(s->set);
    }
}

static void *play(void *arg)
{
    script *s = arg;
    rg_status st = RG_OK;
    for (int i = 0; st == RG_OK && (s->ops == 0 || i < s->ops); i++)
        st = run_one(s);
    CHECK_EQ(st, s->ops == 0 ? RG_ERR_PEER_LOST : RG_OK);
    return NULL;
}

static void run_generation(world *w, rg_set *const *set, char *own, int ops,
                           uint64_t seed)
{
    const uint64_t generation = rg_generation(w->ctx);
    script scripts[SETS];
    pthread_t thread[SETS];
    for (int i = 0; i < SETS; i++)
        scripts[i] = (script){.w = w,
                              .set = set[i],
                              .rank = rg_set_rank(set[i]),
                              .size = rg_set_size(set[i]),
                              .state = seed * 31 + (uint64_t)i + 1,
                              .ops = ops,
                              .own = own + i * ROOM,
                              .shared = w->alloc + i * ROOM};
    for (int i = 0; i < SETS; i++)
        if (scripts[i].rank >= 0)
            CHECK_EQ(pthread_create(&thread[i], NULL, play, &scripts[i]), 0);
    if (ops == 0 && w->index == 0) {
        const struct timespec pause = {
            .tv_nsec = (long)(next_random(&seed) % 30000000)};
        nanosleep(&pause, NULL);
        for (int i = 0; i < w->n; i++)
            world_abort(w, i, generation);
    }
    for (int i = 0; i < SETS; i++)
        if (scripts[i].rank >= 0)
            pthread_join(thread[i], NULL);
}

static void all(world *w, void *arg)
{
    const uint64_t seed = *(const uint64_t *)arg;
    static const int ranks[SETS][4] = {
        {0}, {3, 2, 1, 0}, {0, 2}, {1, 3}, {3, 0, 1}};
    static const int sizes[SETS] = {0, 4, 2, 2, 3};
    rg_set *set[SETS] = {rg_world(w->ctx)};
    char *own = malloc((size_t)SETS * ROOM);
    CHECK(own != NULL);
    for (int i = 1; i < SETS; i++)
        CHECK_OK(rg_set_create(w->ctx, ranks[i], sizes[i], NULL, &set[i]));
    for (uint64_t g = 1; g <= GENERATIONS; g++) {
        const int ops = g == GENERATIONS ? OPS : 0;
        world_meet(w); /* all have what they need before one may end it */
        run_generation(w, set, own, ops, seed * 100 + g);
        if (ops != 0)
            break;
        world_await_left(w);
        world_meet(w);
        int order[4];
        for (int i = 0; i < 4; i++)
            order[i] = (i + (int)g) % 4;
        world_enter(w, g + 1, order, 4);
        CHECK_OK(rg__sets_sync(w->ctx));
    }
    free(own);
}

int main(void)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const world_params params = {.n = 4,
                                     .alloc_bytes = (size_t)SETS * ROOM};
        world_run(&params, all, (void *)&seed);
    }
    return 0;
}
