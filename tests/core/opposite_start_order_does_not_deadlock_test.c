/* Two sets over the same ranks, started in opposite order on two ranks: by one
 * thread that starts both before it waits, and by two threads that block.
 *
 * Covers: engine.c */
#include "tests/lib/world.h"

#define ROUNDS 200
#define COUNT  40000 /* large enough for the staged pipeline */

typedef struct pair {
    rg_set *set[2];
} pair;

static pair make_pair(world *w)
{
    pair p;
    const int ranks[2][2] = {{0, 1}, {1, 0}};
    for (int i = 0; i < 2; i++)
        CHECK_OK(rg_set_create(w->ctx, ranks[i], 2, NULL, &p.set[i]));
    return p;
}

static void one_thread(world *w, void *arg)
{
    (void)arg;
    const pair p = make_pair(w);
    static double data[2][COUNT];
    for (int k = 0; k < ROUNDS; k++) {
        rg_req *req[2] = {NULL, NULL};
        for (int i = 0; i < 2; i++) {
            const int s = i ^ w->index;
            data[s][k] = 1;
            CHECK_OK(rg_allreduce_start(p.set[s], data[s], data[s],
                                        k % 2 == 0 ? COUNT : 300, RG_F64,
                                        RG_MAX, NULL, &req[s]));
        }
        CHECK_OK(rg_wait(&req[w->index], -1));
        CHECK_OK(rg_wait(&req[1 - w->index], -1));
        CHECK(data[0][k] == 1 && data[1][k] == 1);
    }
}

typedef struct job {
    rg_set *set;
    int delay;
} job;

static void *block(void *arg)
{
    const job *j = arg;
    int64_t *data = calloc(COUNT, sizeof *data);
    CHECK(data != NULL);
    for (int k = 0; k < ROUNDS; k++) {
        const uint64_t count = (k + j->delay) % 3 == 0 ? COUNT : 1;
        data[0] = 1;
        CHECK_OK(rg_allreduce(j->set, data, data, count, RG_I64, RG_SUM));
        CHECK_EQ(data[0], 2);
    }
    free(data);
    return NULL;
}

static void two_threads(world *w, void *arg)
{
    (void)arg;
    const pair p = make_pair(w);
    job jobs[2] = {{p.set[w->index], w->index},
                   {p.set[1 - w->index], 1 - w->index}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, block, &jobs[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
}

int main(void)
{
    world_of(2, one_thread, NULL);
    world_of(2, two_threads, NULL);
    return 0;
}
