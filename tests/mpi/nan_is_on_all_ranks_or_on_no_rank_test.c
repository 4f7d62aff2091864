/* MIN and MAX of floats of which some are NaN have equal bits on all ranks,
 * also among more members than Regroup sends messages between. Which of them
 * MPI's own operation keeps depends on the rank that computes it.
 *
 * Covers: mpi_reduce.c */
#include <math.h>

#include "tests/mpi/mpi_check.h"

#define MOST 5000

static rg_ctx *ctx;
static int rank, size;

/* Element i is a NaN on one rank, and differs between the others. */
static double given(int i)
{
    return rank == (i * 3 + 2) % size ? (double)NAN : rank - i % 7;
}

static void claim_equal(const void *result, size_t bytes)
{
    static char first[8 * MOST];
    memcpy(first, result, bytes);
    MPI_Bcast(first, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    CHECK(memcmp(first, result, bytes) == 0);
}

static void of_floats(int count, rg_op op)
{
    static float in[MOST], out[MOST];
    for (int i = 0; i < count; i++)
        in[i] = (float)given(i);
    CHECK_OK(rg_allreduce(rg_world(ctx), in, out, (uint64_t)count, RG_F32, op));
    claim_equal(out, (size_t)count * sizeof *out);
    CHECK_OK(rg_allreduce(rg_world(ctx), in, in, (uint64_t)count, RG_F32, op));
    claim_equal(in, (size_t)count * sizeof *in);
}

static void of_doubles(int count, rg_op op)
{
    static double in[MOST], out[MOST];
    for (int i = 0; i < count; i++)
        in[i] = given(i);
    CHECK_OK(rg_allreduce(rg_world(ctx), in, out, (uint64_t)count, RG_F64, op));
    claim_equal(out, (size_t)count * sizeof *out);
}

int main(void)
{
    static const int counts[] = {1, 4, MOST};
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        of_floats(counts[i], RG_MIN);
        of_floats(counts[i], RG_MAX);
        of_doubles(counts[i], RG_MIN);
        of_doubles(counts[i], RG_MAX);
    }
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
