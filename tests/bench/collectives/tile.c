#include "tests/bench/collectives/tile.h"

#include <math.h>
#include <string.h>

#include "tests/lib/elements.h"

/* Values in the order of phases; small, so that sums are exact. */
static double given(rg_type type, int i)
{
    const double value = i % TILE_PERIOD;
    return type == RG_BOOL ? value > 2 : value;
}

/* Not a multiple of the rank: over seven ranks sums would all be equal. */
static int shift_of(int rank)
{
    return (int)((uint64_t)rank * ((uint64_t)rank + 1) / 2 % TILE_PERIOD);
}

static void make(tile *t, rg_type type, const double *values)
{
    t->type = type;
    for (uint64_t i = 0; i < TILE_ELEMENTS + TILE_PERIOD; i++)
        put(type, t->data, i, values[i % TILE_PERIOD]);
}

void tile_of_given(tile *t, rg_type type)
{
    double values[TILE_PERIOD];
    for (int i = 0; i < TILE_PERIOD; i++)
        values[i] = given(type, i);
    make(t, type, values);
}

void tile_of_result(tile *t, rg_type type, rg_op op, int n)
{
    double values[TILE_PERIOD], x[TILE_PERIOD * 64];
    const int most = (int)(sizeof x / sizeof *x);
    for (int i = 0; i < TILE_PERIOD; i++) {
        for (int r = 0; r < n && r < most; r++)
            x[r] = given(type, i + shift_of(r));
        values[i] = computed(type, op, x, n < most ? n : most);
    }
    make(t, type, values);
}

int tile_phase(int from, int to, uint64_t round)
{
    return (int)(((uint64_t)shift_of(from) + 5 * (uint64_t)to + round) %
                 TILE_PERIOD);
}

static const unsigned char *begin_of(const tile *t, int phase)
{
    return t->data + (size_t)phase * rg_type_size(t->type);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void tile_write(const tile *t, void *data, uint64_t count, int phase)
{
    const size_t size = rg_type_size(t->type);
    for (uint64_t i = 0; i < count; i += TILE_ELEMENTS)
        memcpy((char *)data + i * size, begin_of(t, phase),
               size * least(count - i, TILE_ELEMENTS));
}

/* An average may be rounded in another way, and halves once for each host. */
static double tolerance_of(rg_type type)
{
    switch (type) {
    case RG_F16:
        return 1.0 / 512;
    case RG_BF16:
        return 1.0 / 64;
    case RG_F32:
        return 1e-6;
    case RG_F64:
        return 1e-12;
    default:
        return 0;
    }
}

static uint64_t count_wrong(const tile *t, const void *data, uint64_t count,
                            int phase)
{
    const double tolerance = tolerance_of(t->type);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i++) {
        const double want = get(t->type, t->data, i + (uint64_t)phase);
        const double got = get(t->type, data, i);
        wrong += !(fabs(got - want) <= tolerance * fabs(want));
    }
    return wrong;
}

uint64_t tile_wrong(const tile *t, const void *data, uint64_t count, int phase)
{
    const size_t size = rg_type_size(t->type);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < count; i += TILE_ELEMENTS) {
        const char *at = (const char *)data + i * size;
        const uint64_t n = least(count - i, TILE_ELEMENTS);
        if (memcmp(at, begin_of(t, phase), n * size) != 0)
            wrong += count_wrong(t, at, n, phase);
    }
    return wrong;
}
