/* Wrong counts, batches, steps and ranks are ERR_INVALID; the outputs stay
 * untouched.
 *
 * Covers: sampler.c */
#include "tests/check.h"

static void check_refused(uint64_t count, uint64_t batch)
{
    rg_sampler *sampler = NULL;
    const rg_sampler_params params = {
        .size = sizeof params, .count = count, .batch = batch};
    CHECK_STATUS(rg_sampler_create(NULL, &params, &sampler), RG_ERR_INVALID);
    CHECK(sampler == NULL);
}

int main(void)
{
    rg_sampler *sampler = NULL;
    CHECK_STATUS(rg_sampler_create(NULL, NULL, &sampler), RG_ERR_INVALID);
    check_refused(0, 1);
    check_refused(UINT64_C(1) << 32, 1);
    check_refused(10, 0);
    check_refused(10, 11);

    const rg_sampler_params params = {
        .size = sizeof params, .count = UINT32_MAX /* the most */, .batch = 10};
    const uint64_t *index = NULL;
    uint64_t n = 99;
    CHECK_OK(rg_sampler_create(NULL, &params, &sampler));
    const uint64_t steps = rg_sampler_steps(sampler);
    CHECK_EQ(rg_sampler_batch_size(sampler, steps - 1), 5);
    CHECK_EQ(rg_sampler_batch_size(sampler, steps), 0);
    CHECK_STATUS(rg_sampler_take(sampler, 0, steps, 0, 1, &index, &n),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_sampler_take(sampler, 0, 0, -1, 1, &index, &n),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_sampler_take(sampler, 0, 0, 1, 1, &index, &n),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_sampler_take(sampler, 0, 0, 0, 0, &index, &n),
                 RG_ERR_INVALID);
    CHECK(index == NULL);
    CHECK_EQ(n, 99);
    CHECK_OK(rg_sampler_take(sampler, 0, steps - 1, 0, 1, &index, &n));
    CHECK_EQ(n, 5);
    rg_sampler_destroy(sampler);
    rg_sampler_destroy(NULL);
    return 0;
}
