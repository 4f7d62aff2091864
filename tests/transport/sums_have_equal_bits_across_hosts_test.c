/* Whatever the order in which hosts add: all ranks get the same bits, and the
 * sum is as near as floats allow. The arguments say on which hosts the ranks
 * are.
 *
 * Covers: exchange.c ring.c transport/reduce.c wide.c verdict.c */
#include <math.h>

#include "tests/lib/world.h"

#define MOST 600007

static float value(int rank, uint64_t i)
{
    const float size = ldexpf(1.0f + (float)(i % 1000) / 7.0f, (rank * 7) % 9);
    return (i + (uint64_t)rank) % 3 == 0 ? -size : size;
}

static uint64_t digest(const float *data, uint64_t count)
{
    uint64_t d = 14695981039346656037u;
    uint32_t bits;
    for (uint64_t i = 0; i < count; i++) {
        memcpy(&bits, &data[i], sizeof bits);
        d = (d ^ bits) * 1099511628211u;
    }
    return d;
}

static void check_near(const world *w, const float *sum, uint64_t count)
{
    for (uint64_t i = 0; i < count; i += 101) {
        double want = 0, size = 0;
        for (int r = 0; r < w->n; r++) {
            want += (double)value(r, i);
            size += fabs((double)value(r, i));
        }
        CHECK(fabs(want - (double)sum[i]) <= size * 1e-6);
    }
}

static void check_equal(world *w, const float *data, uint64_t count)
{
    uint64_t mine = digest(data, count), all[WORLD_MAX];
    CHECK_OK(rg_allgather(rg_world(w->ctx), &mine, all, 1, RG_I64));
    for (int r = 0; r < w->n; r++)
        CHECK(all[r] == mine);
}

/* Which of two equal zeros is the larger one depends on their order. */
static void zeros(world *w, float *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = w->host_of[w->index] % 2 == 0 ? 0.0f : -0.0f;
    CHECK_OK(rg_allreduce(rg_world(w->ctx), data, data, count, RG_F32, RG_MAX));
    check_equal(w, data, count);
}

static void reduce(world *w, float *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = value(w->index, i);
    CHECK_OK(rg_allreduce(rg_world(w->ctx), data, data, count, RG_F32, RG_SUM));
    check_near(w, data, count);
    check_equal(w, data, count);
}

static void all(world *w, void *arg)
{
    (void)arg;
    static const uint64_t counts[] = {1,    5,     24,    25,    100,    2047,
                                      2049, 65535, 65536, 65537, 200003, MOST};
    float *own = malloc(sizeof *own * MOST);
    CHECK(own != NULL);
    for (int i = 0; i < 12; i++) {
        reduce(w, own, counts[i]);
        reduce(w, (float *)(void *)w->alloc, counts[i]);
        reduce(w, w->index == 0 ? own : (float *)(void *)w->alloc, counts[i]);
    }
    zeros(w, own, 100);
    zeros(w, own, 16384);
    free(own);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
