/* A program makes and gives back 3,000 sets, some of them from communicators,
 * and then holds 2,000 at once and uses all of them. Where MPI has fewer
 * communicators left (MPICH: 2048 in all), that is said on all ranks, and what
 * lives goes on.
 *
 * Covers: mpi_comm.c mpi/program.c */
#include <stdio.h>
#include <stdlib.h>

#include "tests/mpi/mpi_check.h"

#define TURNS 3000
#define HELD  2000

static rg_ctx *ctx;
static int rank, size;

static void use(rg_set *set, int number)
{
    int sum = 0;
    CHECK_OK(rg_allreduce(set, &number, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, number * rg_set_size(set));
}

static rg_set *make(MPI_Comm part, const int *ranks, int number)
{
    rg_set *set = NULL;
    if (number % 3 == 0)
        CHECK_OK(rg_set_create_mpi(ctx, part, NULL, &set));
    else
        CHECK_OK(rg_set_create(ctx, ranks, size, NULL, &set));
    return set;
}

static void one_after_another(MPI_Comm part, const int *ranks)
{
    for (int i = 0; i < TURNS; i++) {
        rg_set *set = make(part, ranks, i);
        use(set, i);
        CHECK_OK(rg_set_destroy(set));
    }
}

static int hold(const int *ranks, rg_set **held)
{
    int n = 0;
    rg_status st = RG_OK;
    while (n < HELD && st == RG_OK) {
        st = rg_set_create(ctx, ranks, size, NULL, &held[n]);
        n += st == RG_OK;
    }
    if (n < HELD) {
        CHECK_STATUS(st, RG_ERR_SYSTEM);
        if (rank == 0)
            printf("%d sets: %s\n", n, rg_last_error());
        CHECK(strstr(rg_last_error(), "communicators") != NULL);
    }
    return n;
}

int main(int argc, char **argv)
{
    const int least = argc > 1 ? atoi(argv[1]) : HELD;
    static rg_set *held[HELD];
    CHECK_OK(rg_init(NULL, &ctx));
    MPI_Comm part;
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    int *ranks = calloc((size_t)size, sizeof *ranks);
    for (int i = 0; i < size; i++)
        ranks[i] = size - 1 - i;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
    one_after_another(part, ranks);
    const int n = hold(ranks, held);
    if (n < least)
        CHECK_FAIL("%d sets live at once, and %d were expected", n, least);
    for (int i = 0; i < n; i++)
        use(held[i], i);
    for (int i = 0; i < n; i++)
        CHECK_OK(rg_set_destroy(held[i]));
    MPI_Comm_free(&part);
    free(ranks);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
