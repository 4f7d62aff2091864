/* Float sums depend on their order, so all ranks must add in the same one:
 * 0, 1 .. n-1. Compared with that sum bit by bit, in every algorithm.
 *
 * Covers: transport/reduce.c */
#include <math.h>

#include "tests/lib/world.h"

static float value(int rank, uint64_t i)
{
    return ldexpf(1.0f + (float)(i % 1000) / 7.0f, (rank * 11) % 23 - 9);
}

static float serial(int n, uint64_t i)
{
    float sum = value(0, i);
    for (int r = 1; r < n; r++)
        sum += value(r, i);
    return sum;
}

static void reduce(world *w, float *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = value(w->index, i);
    CHECK_OK(rg_allreduce(rg_world(w->ctx), data, data, count, RG_F32, RG_SUM));
    for (uint64_t i = 0; i < count; i++) {
        const float want = serial(w->n, i);
        CHECK(memcmp(&want, &data[i], sizeof want) == 0);
    }
}

static void all(world *w, void *arg)
{
    (void)arg;
    static const uint64_t counts[] = {5, 100, 1000, 3001, 200003};
    float *own = malloc(sizeof *own * 200003);
    CHECK(own != NULL);
    for (int i = 0; i < 5; i++) {
        reduce(w, own, counts[i]);
        reduce(w, (float *)(void *)w->alloc, counts[i]);
        reduce(w, w->index == 0 ? own : (float *)(void *)w->alloc, counts[i]);
    }
    free(own);
}

int main(void)
{
    world_of(3, all, NULL);
    world_of(5, all, NULL);
    return 0;
}
