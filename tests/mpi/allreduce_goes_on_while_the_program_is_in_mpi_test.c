/* A program that calls MPI_Init alone, so that only its own thread may call
 * MPI: rank 0 starts an allreduce and blocks in MPI_Recv, and the others send
 * what it waits for only after their allreduce has ended. MPI goes on with it
 * in any of its calls; between two, whatever the operation.
 *
 * Covers: mpi_reduce.c mpi/world.c */
#include <stdlib.h>

#include "tests/mpi/mpi_check.h"

#define MOST 100000

static rg_ctx *ctx;
static int rank, size;

static void wait_for(rg_req **req, const double *data, uint64_t count,
                     double expected)
{
    CHECK_OK(rg_wait(req, -1));
    for (uint64_t i = 0; i < count; i++)
        CHECK(data[i] == expected);
}

static void allreduce(double *data, uint64_t count, rg_op op)
{
    const double expected = op == RG_SUM ? size : 1;
    rg_req *req = NULL;
    int word = 1;
    for (uint64_t i = 0; i < count; i++)
        data[i] = 1;
    CHECK_OK(rg_allreduce_start(rg_world(ctx), data, data, count, RG_F64, op,
                                NULL, &req));
    if (rank != 0) {
        wait_for(&req, data, count, expected);
        MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
        return;
    }
    for (int r = 1; r < size; r++)
        MPI_Recv(&word, 1, MPI_INT, r, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    wait_for(&req, data, count, expected);
}

int main(void)
{
    static const uint64_t counts[] = {1, 100, 600, 1000, 10000, MOST};
    double *data = malloc(MOST * sizeof *data);
    CHECK(data != NULL);
    MPI_Init(NULL, NULL);
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        allreduce(data, counts[i], RG_SUM);
    for (size_t i = 0; i < sizeof counts / sizeof *counts && size == 2; i++)
        allreduce(data, counts[i], RG_MAX); /* MPI's might give ranks different
                                               NaN, so it is not used */
    CHECK_OK(rg_finalize(ctx));
    MPI_Finalize();
    free(data);
    return 0;
}
