/* MIN and MAX of floats are NaN where any rank has one, whichever it is, in
 * every type of floats, on one host and on several; elsewhere they are the
 * least and the greatest.
 *
 * Covers: transport/reduce.c */
#include <math.h>

#include "tests/lib/world.h"

#define MOST 40000 /* more than a slice */

static const uint64_t counts[] = {1, 5, 600, 5000, MOST};
static const rg_type types[] = {RG_F32, RG_F64, RG_F16, RG_BF16};

/* Small whole numbers and NaN are exact in all types. */
static void put(rg_type type, void *data, uint64_t i, bool is_nan, int value)
{
    static const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400};
    static const uint16_t bf16[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080};
    uint16_t *half = data;
    if (type == RG_F32)
        ((float *)data)[i] = is_nan ? NAN : (float)value;
    else if (type == RG_F64)
        ((double *)data)[i] = is_nan ? (double)NAN : value;
    else if (type == RG_F16)
        half[i] = is_nan ? 0x7e00 : f16[value];
    else
        half[i] = is_nan ? 0x7fc0 : bf16[value];
}

/* Rank i mod n has a NaN in every seventh element. */
static bool has_nan(uint64_t i, int rank, int n)
{
    return i % 7 == 0 && i / 7 % (uint64_t)n == (uint64_t)rank;
}

static int value_of(uint64_t i, int rank)
{
    return (int)((i + (uint64_t)rank) % 5);
}

static bool is_same(rg_type type, const char *a, const char *b, uint64_t i)
{
    const uint16_t half = ((const uint16_t *)(const void *)a)[i];
    if (type == RG_F32 && isnan(((const float *)(const void *)b)[i]))
        return isnan(((const float *)(const void *)a)[i]);
    if (type == RG_F64 && isnan(((const double *)(const void *)b)[i]))
        return isnan(((const double *)(const void *)a)[i]);
    if (type == RG_F16 && ((const uint16_t *)(const void *)b)[i] == 0x7e00)
        return (half & 0x7fff) > 0x7c00;
    if (type == RG_BF16 && ((const uint16_t *)(const void *)b)[i] == 0x7fc0)
        return (half & 0x7fff) > 0x7f80;
    const size_t size = rg_type_size(type);
    return memcmp(a + i * size, b + i * size, size) == 0;
}

static void put_wanted(rg_type type, rg_op op, void *want, uint64_t i, int n)
{
    int best = value_of(i, 0);
    for (int r = 1; r < n; r++) {
        const int v = value_of(i, r);
        best = (op == RG_MIN ? v < best : v > best) ? v : best;
    }
    put(type, want, i, i % 7 == 0, best);
}

static void reduce(world *w, rg_type type, rg_op op, uint64_t count)
{
    static double own[MOST], out[MOST], want[MOST];
    for (int is_shared = 0; is_shared < 2; is_shared++) {
        void *in = is_shared ? (void *)w->alloc : own;
        for (uint64_t i = 0; i < count; i++) {
            put(type, in, i, has_nan(i, w->index, w->n), value_of(i, w->index));
            put_wanted(type, op, want, i, w->n);
        }
        CHECK_OK(rg_allreduce(rg_world(w->ctx), in, out, count, type, op));
        for (uint64_t i = 0; i < count; i++)
            if (!is_same(type, (char *)out, (char *)want, i))
                CHECK_FAIL("type %d, op %d, element %llu of %llu", (int)type,
                           (int)op, (unsigned long long)i,
                           (unsigned long long)count);
    }
}

static void all(world *w, void *arg)
{
    (void)arg;
    for (size_t t = 0; t < 4; t++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            reduce(w, types[t], RG_MIN, counts[c]);
            reduce(w, types[t], RG_MAX, counts[c]);
        }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const world_params params = {.n = (int)strlen(argv[i]),
                                     .hosts = argv[i],
                                     .alloc_bytes = MOST * sizeof(double)};
        world_run(&params, all, NULL);
    }
    return 0;
}
