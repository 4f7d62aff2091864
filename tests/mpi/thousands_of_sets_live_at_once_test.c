/* A program makes and gives back 3,000 sets, many of them from communicators
 * (of all ranks, and of one), which leaks nothing, and then holds 2,000, some
 * of them from a communicator, and uses all of them. Where MPI has fewer
 * communicators left (MPICH: 2048 in all), that is said on all ranks, and what
 * lives goes on.
 *
 * Covers: mpi_comm.c mpi/program.c among.c */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/mpi/mpi_check.h"

#define TURNS 3000
#define WARM  1000
#define HELD  2000
#define SPARE (1024 * 1024) /* bytes */
#ifdef MPICH_VERSION        /* whose ranks spin while they wait */
#define WHOLE 12
#else
#define WHOLE 3 /* one of so many is of all ranks */
#endif

static rg_ctx *ctx;
static int rank, size;

static void use(rg_set *set, int number)
{
    int sum = 0;
    CHECK_OK(rg_allreduce(set, &number, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, number * rg_set_size(set));
}

static rg_status make(MPI_Comm comm, const int *ranks, rg_set **set_p)
{
    return comm != MPI_COMM_NULL ? rg_set_create_mpi(ctx, comm, NULL, set_p)
                                 : rg_set_create(ctx, ranks, size, NULL, set_p);
}

static long resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

static void one_after_another(MPI_Comm whole, MPI_Comm part, const int *ranks)
{
    long warm = 0;
    for (int i = 0; i < TURNS; i++) {
        rg_set *set = NULL;
        CHECK_OK(make(i % 3 == 0       ? part
                      : i % WHOLE == 1 ? whole
                                       : MPI_COMM_NULL,
                      ranks, &set));
        use(set, i);
        CHECK_OK(rg_set_destroy(set));
        if (i == WARM)
            warm = resident_bytes();
    }
    const long more = resident_bytes() - warm;
    if (more > SPARE)
        CHECK_FAIL("%d sets have left %ld bytes behind", TURNS - WARM, more);
}

static int hold(MPI_Comm whole, const int *ranks, rg_set **held)
{
    int n = 0;
    rg_status st = RG_OK;
    while (n < HELD && st == RG_OK) {
        st = make(n % WHOLE == 0 ? whole : MPI_COMM_NULL, ranks, &held[n]);
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
    MPI_Comm whole, part;
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    int *ranks = calloc((size_t)size, sizeof *ranks);
    for (int i = 0; i < size; i++)
        ranks[i] = size - 1 - i;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &part);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &whole);
    one_after_another(whole, part, ranks);
    const int n = hold(whole, ranks, held);
    if (n < least)
        CHECK_FAIL("%d sets live at once, and %d were expected", n, least);
    for (int i = 0; i < n; i++)
        use(held[i], i);
    for (int i = 0; i < n; i++)
        CHECK_OK(rg_set_destroy(held[i]));
    MPI_Comm_free(&part);
    MPI_Comm_free(&whole);
    free(ranks);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
