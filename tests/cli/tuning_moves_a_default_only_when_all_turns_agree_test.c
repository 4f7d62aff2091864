/* The size from which on memory is read moves only past sizes at which every
 * turn says the same by 10 %, and never past one that does not.
 *
 * Covers: tune_choose.c */
#include "elastic/cli/tune.h"
#include "tests/check.h"

#define N     5
#define USUAL 32

static uint64_t choose(const double first[N], const double second[N])
{
    rg__tune_point point[N];
    for (int i = 0; i < N; i++)
        point[i] = (rg__tune_point){.bytes = UINT64_C(8) << i,
                                    .gain = {first[i], second[i]}};
    return rg__tune_choose(point, N, USUAL);
}

/* Sizes: 8, 16, 32 (the usual one), 64, 128. */
static void noise_changes_nothing(void)
{
    const double none[N] = {1, 1, 1, 1, 1};
    const double high[N] = {2, 2, 2, 2, 2}, low[N] = {.5, .5, .5, .5, .5};
    const double above[N] = {1.09, 1.09, 1.09, 1.09, 1.09};
    const double below[N] = {.92, .92, .92, .92, .92};
    const double broken[N] = {0, 0, 0, 0, 0};
    CHECK_EQ(choose(none, none), USUAL);
    CHECK_EQ(choose(high, low), USUAL);
    CHECK_EQ(choose(low, high), USUAL);
    CHECK_EQ(choose(high, above), USUAL);
    CHECK_EQ(choose(low, below), USUAL);
    CHECK_EQ(choose(broken, broken), USUAL);
}

static void clear_gains_move_it(void)
{
    const double reading[N] = {1.2, 1.2, 1.2, 1.2, 1.2};
    const double staging[N] = {.8, .8, .8, .8, .8};
    const double from_16[N] = {1, 1.2, 1, 1, 1};
    const double beyond_a_gap[N] = {1.2, 1, 1, 1, 1};
    const double until_32[N] = {.8, .8, .8, 1, .8};
    CHECK_EQ(choose(reading, reading), 8);
    CHECK_EQ(choose(from_16, from_16), 16);
    CHECK_EQ(choose(beyond_a_gap, beyond_a_gap), USUAL);
    CHECK_EQ(choose(until_32, until_32), 64);
    CHECK_EQ(choose(staging, staging), UINT64_MAX);
}

int main(void)
{
    noise_changes_nothing();
    clear_gains_move_it();
    return 0;
}
