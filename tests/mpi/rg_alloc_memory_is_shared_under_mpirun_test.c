/* transport native under mpirun reads rg_alloc memory where it is, though no
 * agent passes it on; it may be freed and allocated again.
 *
 * Covers: segment_registry.c */
#include "tests/mpi/mpi_check.h"

#define COUNT  100000
#define CYCLES 20

int main(void)
{
    rg_ctx *ctx = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    const int rank = rg_rank(ctx), size = rg_size(ctx);
    for (int k = 0; k < CYCLES; k++) {
        void *at = NULL;
        CHECK_OK(rg_alloc(ctx, COUNT * sizeof(int), NULL, &at));
        int *data = at, *out = malloc(COUNT * sizeof *out);
        for (int i = 0; i < COUNT; i++)
            data[i] = rank + i + k;
        /* in shared memory on all, and on some only */
        int *to = k % 2 == 0 || rank == 0 ? data : out;
        CHECK_OK(rg_allreduce(rg_world(ctx), data, to, COUNT, RG_I32, RG_SUM));
        for (int i = 0; i < COUNT; i++)
            CHECK_EQ(to[i], size * (i + k) + size * (size - 1) / 2);
        CHECK_OK(rg_barrier(rg_world(ctx)));
        CHECK_OK(rg_free(ctx, data));
        free(out);
    }
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
