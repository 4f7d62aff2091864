/* In every epoch each sample belongs to exactly one step and one rank, for
 * every size of the world; parts differ by at most one sample.
 *
 * Covers: sampler.c */
#include "tests/check.h"

static void check_epoch(uint64_t count, uint64_t batch, int size, int in_order)
{
    rg_sampler *sampler = NULL;
    const rg_sampler_params params = {.size = sizeof params,
                                      .count = count,
                                      .batch = batch,
                                      .seed = 3,
                                      .in_order = in_order};
    unsigned char *seen = calloc(count, 1);
    CHECK(seen != NULL);
    CHECK_OK(rg_sampler_create(NULL, &params, &sampler));
    CHECK_EQ(rg_sampler_steps(sampler), (count + batch - 1) / batch);
    uint64_t total = 0;
    for (uint64_t step = 0; step < rg_sampler_steps(sampler); step++) {
        uint64_t least = UINT64_MAX, most = 0, in_step = 0;
        for (int rank = 0; rank < size; rank++) {
            const uint64_t *index = NULL;
            uint64_t n = 0;
            CHECK_OK(rg_sampler_take(sampler, 5, step, rank, size, &index, &n));
            for (uint64_t i = 0; i < n; i++) {
                CHECK(index[i] < count);
                CHECK_EQ(seen[index[i]], 0);
                seen[index[i]] = 1;
            }
            least = n < least ? n : least;
            most = n > most ? n : most;
            in_step += n;
        }
        CHECK(most - least <= 1);
        CHECK_EQ(in_step, rg_sampler_batch_size(sampler, step));
        total += in_step;
    }
    CHECK_EQ(total, count);
    rg_sampler_destroy(sampler);
    free(seen);
}

int main(void)
{
    static const uint64_t counts[] = {
        1, 2, 5, 16 /* a whole network */, 17 /* just above one */, 1438};
    static const int sizes[] = {1, 3 /* odd */, 4, 9 /* above a batch */};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (int in_order = 0; in_order < 2; in_order++) {
                check_epoch(counts[c], 1, sizes[s], in_order);
                check_epoch(counts[c], counts[c], sizes[s], in_order);
                check_epoch(counts[c], (counts[c] + 2) / 3, sizes[s], in_order);
            }
    return 0;
}
