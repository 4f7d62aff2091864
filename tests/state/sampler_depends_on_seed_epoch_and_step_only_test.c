/* A step's samples are the same however often, in which order and by how many
 * ranks they are taken; epochs and seeds differ; and an epoch is well
 * shuffled.
 *
 * Covers: sampler.c */
#include "tests/check.h"

#define COUNT 1000
#define BATCH 96 /* the last step has 40 */

static rg_sampler *make(uint64_t seed)
{
    rg_sampler *sampler = NULL;
    const rg_sampler_params params = {
        .size = sizeof params, .count = COUNT, .batch = BATCH, .seed = seed};
    CHECK_OK(rg_sampler_create(NULL, &params, &sampler));
    return sampler;
}

/* The whole epoch, taken by a world of size ranks. */
static void epoch_of(rg_sampler *sampler, uint64_t epoch, int size,
                     uint64_t order[COUNT])
{
    uint64_t at = 0;
    for (uint64_t step = 0; step < rg_sampler_steps(sampler); step++)
        for (int rank = 0; rank < size; rank++) {
            const uint64_t *index = NULL;
            uint64_t n = 0;
            CHECK_OK(
                rg_sampler_take(sampler, epoch, step, rank, size, &index, &n));
            CHECK(at + n <= COUNT);
            memcpy(&order[at], index, n * sizeof *index);
            at += n;
        }
    CHECK_EQ(at, COUNT);
}

/* Places that stay, or that are followed by their successor, as in a shuffled
 * epoch: about one of each is expected, ten is impossible by chance. */
static void check_shuffled(const uint64_t order[COUNT])
{
    int stayed = 0, followed = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        stayed += order[i] == i;
        followed += i > 0 && order[i] == order[i - 1] + 1;
    }
    CHECK(stayed < 10);
    CHECK(followed < 10);
}

int main(void)
{
    static uint64_t first[COUNT], again[COUNT];
    rg_sampler *sampler = make(7), *other = make(8);
    epoch_of(sampler, 0, 1, first);
    check_shuffled(first);
    for (int size = 2; size < 6; size++) {
        epoch_of(sampler, 0, size, again);
        CHECK(memcmp(first, again, sizeof first) == 0);
    }
    epoch_of(sampler, 1, 1, again);
    check_shuffled(again);
    CHECK(memcmp(first, again, sizeof first) != 0);
    epoch_of(other, 0, 1, again);
    CHECK(memcmp(first, again, sizeof first) != 0);
    rg_sampler_destroy(other);
    rg_sampler_destroy(sampler);
    return 0;
}
