/* The network of elastic_digits ends in the same state, to the last bit, for
 * every world size, also one that changes on the way; and it learns. The
 * worlds are played by one process: each rank's sums apart, then added.
 *
 * Covers: 03_elastic_digits.c */
#include "tests/check.h"

#include "examples/digits_net.h"

#define EPOCHS 20

static digits data;
static int64_t part[SUMS], total[SUMS];

/* One step of a world of size ranks, added from the last rank to the first:
 * an order that no smaller world has. */
static void step(model *m, rg_sampler *sampler, int size)
{
    const sums mine = {.data = part}, all = {.data = total};
    const uint64_t steps = rg_sampler_steps(sampler), k = m->step % steps;
    digits_clear(&all);
    for (int rank = size - 1; rank >= 0; rank--) {
        const uint64_t *index = NULL;
        uint64_t n = 0;
        CHECK_OK(rg_sampler_take(sampler, m->step / steps, k, rank, size,
                                 &index, &n));
        digits_clear(&mine);
        for (uint64_t i = 0; i < n; i++)
            digits_add(&mine, m, &data.train[index[i]]);
        for (int i = 0; i < SUMS; i++)
            total[i] += part[i];
    }
    digits_apply(m, &all, rg_sampler_batch_size(sampler, k));
}

/* size 0: another size in every step. */
static uint64_t final_state(int size, double *accuracy_p)
{
    static model m;
    rg_sampler *sampler = NULL;
    const rg_sampler_params params = {.size = sizeof params,
                                      .count = data.train_count,
                                      .batch = 64,
                                      .seed = 7};
    CHECK_OK(rg_sampler_create(NULL, &params, &sampler));
    digits_init(&m);
    while (m.step < EPOCHS * rg_sampler_steps(sampler))
        step(&m, sampler, size > 0 ? size : 1 + (int)(m.step % 5));
    rg_sampler_destroy(sampler);
    *accuracy_p = digits_accuracy(&m, &data);
    return digits_hash(&m);
}

int main(int argc, char **argv)
{
    static const int sizes[] = {2, 3 /* does not divide 64 */, 4, 7, 0};
    double accuracy = 0;
    CHECK(argc == 2);
    CHECK(digits_read(argv[1], &data) == 0);
    CHECK_EQ(data.train_count, 1438);
    CHECK_EQ(data.test_count, 359);
    const uint64_t alone = final_state(1, &accuracy);
    printf("accuracy %.4f state %016llx\n", accuracy,
           (unsigned long long)alone);
    CHECK(accuracy >= 0.95);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CHECK_EQ(final_state(sizes[i], &accuracy), alone);
    return 0;
}
