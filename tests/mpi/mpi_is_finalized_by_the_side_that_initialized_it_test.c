/* The side that comes first initialises MPI, and finalises it; a program that
 * finalises it too early gets errors, and no crash, and one whose world was
 * left by a thread that may not call MPI none either.
 *
 * Covers: mpi/world.c offer.c */
#include <pthread.h>

#include "tests/mpi/mpi_check.h"

static rg_ctx *ctx;

static int is_up(void)
{
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    return begun && !ended;
}

static void sum(void)
{
    const int one = 1;
    int n = 0;
    CHECK_OK(rg_allreduce(rg_world(ctx), &one, &n, 1, RG_I32, RG_SUM));
    CHECK_EQ(n, rg_size(ctx));
}

static void regroup_first(void)
{
    CHECK(!is_up());
    CHECK_OK(rg_init(NULL, &ctx));
    CHECK(is_up());
    sum();
    CHECK_OK(rg_finalize(ctx));
    CHECK(!is_up());
}

static void program_first(void)
{
    MPI_Init(NULL, NULL);
    CHECK_OK(rg_init(NULL, &ctx));
    sum();
    CHECK_OK(rg_finalize(ctx));
    CHECK(is_up());
    MPI_Finalize();
}

static void program_too_early(void)
{
    int level = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    CHECK_OK(rg_init(NULL, &ctx));
    sum();
    MPI_Finalize();
    int n = 0;
    CHECK_STATUS(rg_allreduce(rg_world(ctx), &n, &n, 1, RG_I32, RG_SUM),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "MPI_Finalize") != NULL);
    rg_set *set = NULL;
    CHECK_STATUS(rg_set_create_mpi(ctx, MPI_COMM_NULL, NULL, &set),
                 RG_ERR_INVALID);
    MPI_Comm comm;
    CHECK_STATUS(rg_set_mpi_comm(rg_world(ctx), &comm), RG_ERR_INVALID);
    CHECK_OK(rg_finalize(ctx));
}

static void *leave(void *none)
{
    CHECK_OK(rg_finalize(ctx));
    return none;
}

/* MPI_Finalize has no rank to tell. */
static void another_thread(void)
{
    int level = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    CHECK_OK(rg_init(NULL, &ctx));
    sum();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leave, NULL) == 0);
    pthread_join(thread, NULL);
    MPI_Finalize();
}

static void never_again(void)
{
    MPI_Init(NULL, NULL);
    MPI_Finalize();
    CHECK_STATUS(rg_init_mpi(MPI_COMM_WORLD, NULL, &ctx), RG_ERR_INVALID);
    CHECK_STATUS(rg_init(NULL, &ctx), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "finalised before rg_init") != NULL);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "regroup_first") == 0)
        regroup_first();
    else if (strcmp(how, "program_first") == 0)
        program_first();
    else if (strcmp(how, "program_too_early") == 0)
        program_too_early();
    else if (strcmp(how, "another_thread") == 0)
        another_thread();
    else
        never_again();
    return 0;
}
