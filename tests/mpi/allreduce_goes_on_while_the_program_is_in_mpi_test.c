/* A program that asks MPI for no threads, on all ranks or on every other one,
 * so that only its own thread may call MPI: rank 0 starts an allreduce and
 * blocks in MPI_Recv, and the others send what it waits for only after their
 * allreduce has ended, whether they started it or wait in it. MPI goes on with
 * it in any of its calls; between two, whatever the operation. If all wait in
 * it, it is not left to MPI.
 *
 * Covers: mpi_reduce.c mpi/world.c */
#include <stdlib.h>

#include "tests/mpi/mpi_check.h"

#define MOST 200000 /* three rounds among two or four */

static rg_ctx *ctx;
static int rank, size, left_to_mpi;

RG_API int MPI_Iallreduce(const void *send, void *recv, int count,
                          MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                          MPI_Request *request)
{
    left_to_mpi++;
    return PMPI_Iallreduce(send, recv, count, type, op, comm, request);
}

static void check_all(const double *data, uint64_t count, rg_op op)
{
    const double expected = op == RG_SUM ? size : 1;
    for (uint64_t i = 0; i < count; i++)
        CHECK(data[i] == expected);
}

static void fill(double *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = 1;
}

static void start_and_stay_away(double *data, uint64_t count, rg_op op)
{
    rg_req *req = NULL;
    int word = 0;
    CHECK_OK(rg_allreduce_start(rg_world(ctx), data, data, count, RG_F64, op,
                                NULL, &req));
    for (int r = 1; r < size && rank == 0; r++)
        MPI_Recv(&word, 1, MPI_INT, r, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK_OK(rg_wait(&req, -1));
}

static void allreduce(double *data, uint64_t count, rg_op op, bool others_wait)
{
    const int word = 1;
    fill(data, count);
    if (rank == 0 || !others_wait)
        start_and_stay_away(data, count, op);
    else
        CHECK_OK(rg_allreduce(rg_world(ctx), data, data, count, RG_F64, op));
    check_all(data, count, op);
    if (rank != 0)
        MPI_Send(&word, 1, MPI_INT, 0, 7, MPI_COMM_WORLD);
}

static void wait_in_all(double *data, uint64_t count)
{
    left_to_mpi = 0;
    fill(data, count);
    CHECK_OK(rg_allreduce(rg_world(ctx), data, data, count, RG_F64, RG_SUM));
    check_all(data, count, RG_SUM);
    CHECK(left_to_mpi == 0);
}

/* The rank, before MPI says it. */
static int launched_rank(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank == NULL)
        rank = getenv("PMI_RANK");
    return rank == NULL ? 0 : atoi(rank);
}

int main(int argc, char **argv)
{
    static const uint64_t counts[] = {1, 100, 600, 1000, 10000, MOST};
    double *data = malloc(MOST * sizeof *data);
    CHECK(data != NULL);
    const bool is_mixed = argc > 1 && strcmp(argv[1], "mixed") == 0;
    const bool has_threads = is_mixed && launched_rank() % 2 == 1;
    int level = 0;
    MPI_Init_thread(NULL, NULL,
                    has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE,
                    &level);
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        allreduce(data, counts[i], RG_SUM, false);
        allreduce(data, counts[i], RG_SUM, true);
        wait_in_all(data, counts[i]);
        if (size == 2) /* MPI's might give ranks different NaN, so it is not
                          used */
            allreduce(data, counts[i], RG_MAX, i % 2 == 0);
    }
    CHECK_OK(rg_finalize(ctx));
    MPI_Finalize();
    free(data);
    return 0;
}
