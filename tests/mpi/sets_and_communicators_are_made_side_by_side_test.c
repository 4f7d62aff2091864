/* One thread makes sets, another communicators of the program's own after
 * barriers of a set: neither waits for the other, on any rank.
 *
 * Covers: mpi_comm.c */
#include <pthread.h>

#include "tests/mpi/mpi_check.h"

#define ROUNDS 300

static rg_ctx *ctx;
static int all[64];
static int size;

static void *make_sets(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        rg_set *set = NULL;
        CHECK_OK(rg_set_create(ctx, all, size, NULL, &set));
        CHECK_OK(rg_set_destroy(set));
    }
    return NULL;
}

static void make_communicators(rg_set *set)
{
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Comm comm;
        CHECK_OK(rg_barrier(set));
        MPI_Comm_dup(MPI_COMM_WORLD, &comm);
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    int level = MPI_THREAD_SINGLE;
    rg_set *set = NULL;
    pthread_t maker;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (level < MPI_THREAD_MULTIPLE)
        SKIP("this MPI has no MPI_THREAD_MULTIPLE");
    CHECK_OK(rg_init(NULL, &ctx));
    size = rg_size(ctx);
    for (int i = 0; i < size; i++)
        all[i] = i;
    CHECK_OK(rg_set_create(ctx, all, size, NULL, &set));
    CHECK_EQ(pthread_create(&maker, NULL, make_sets, NULL), 0);
    make_communicators(set);
    pthread_join(maker, NULL);
    CHECK_OK(rg_finalize(ctx));
    MPI_Finalize();
    return 0;
}
