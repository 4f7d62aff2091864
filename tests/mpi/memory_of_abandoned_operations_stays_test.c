/* A member gives up a group that Regroup has packed into memory of its own, and
 * goes on. MPI still sends from there once the others come: they get what the
 * member has started, and its heap is not damaged.
 *
 * Covers: stage.c mpi_comm.c */
#include <stdlib.h>

#include "tests/mpi/mpi_check.h"

/* So much of both that every rank sends all, among 3, and MPI takes it
 * later. */
#define COUNT  1700
#define BLOCKS 64
#define PARTS  2

static rg_ctx *ctx;

/* Never freed: MPI may go on using them. */
static float in[PARTS][COUNT], out[PARTS][COUNT];

static rg_status sum_in_a_group(int timeout_ms)
{
    const rg_op_params params = {.size = sizeof params,
                                 .timeout_ms = timeout_ms};
    rg_req *req[PARTS] = {NULL};
    CHECK_OK(rg_group_start(ctx));
    for (int i = 0; i < PARTS; i++)
        CHECK_OK(rg_allreduce_start(rg_world(ctx), in[i], out[i], COUNT, RG_F32,
                                    RG_SUM, &params, &req[i]));
    CHECK_OK(rg_group_end(ctx));
    return rg_wait_all(req, PARTS, -1);
}

/* Blocks of the size that was packed, which free has just given back. */
static void fill_heap(float *block[BLOCKS])
{
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(sizeof in + 1);
        CHECK(block[i] != NULL);
        for (int k = 0; k < PARTS * COUNT; k++)
            block[i][k] = 1000;
    }
}

static void check_heap(float *block[BLOCKS])
{
    for (int i = 0; i < BLOCKS; i++) {
        for (int k = 0; k < PARTS * COUNT; k++)
            CHECK(block[i][k] == 1000);
        free(block[i]);
    }
}

int main(void)
{
    float *block[BLOCKS] = {NULL};
    rg_set *other = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    const int size = rg_size(ctx);
    for (int i = 0; i < PARTS; i++)
        for (int k = 0; k < COUNT; k++)
            in[i][k] = 1;
    int ranks[MEMBERS_MAX];
    for (int i = 0; i < size; i++)
        ranks[i] = i;
    CHECK_OK(rg_set_create(ctx, ranks, size, NULL, &other));
    if (rg_rank(ctx) == 0) {
        CHECK_STATUS(sum_in_a_group(100), RG_ERR_TIMEOUT);
        fill_heap(block);
    }
    CHECK_OK(rg_barrier(other));
    if (rg_rank(ctx) != 0) {
        CHECK_OK(sum_in_a_group(0));
        for (int i = 0; i < PARTS; i++)
            for (int k = 0; k < COUNT; k++)
                CHECK(out[i][k] == (float)size);
    }
    CHECK_OK(rg_barrier(other));
    if (rg_rank(ctx) == 0)
        check_heap(block);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
