/* rg_init_session: a world from a process set's name, without MPI_Init; a set
 * that MPI does not know is refused with the names of those that it knows, and
 * so is an MPI without sessions.
 *
 *   session_makes_a_world world|self|PSET    PSET: of all ranks of one host
 *
 * Covers: mpi/session.c mpi/world.c mpi/program.c */
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/mpi/mpi_check.h"

static rg_ctx *ctx;

static void claim_mpi_is_not_initialised(void)
{
    int is_initialised = 1;
    MPI_Initialized(&is_initialised);
    CHECK(!is_initialised);
}

static void no_session(void)
{
    CHECK_STATUS(rg_init_session("mpi://WORLD", NULL, &ctx),
                 RG_ERR_UNSUPPORTED);
    CHECK(strstr(rg_last_error(), "has no sessions; run the program on Open "
                                  "MPI 5 or MPICH 4") != NULL);
}

static void claim_sums(rg_set *set, int size)
{
    const int one = 1;
    int sum = 0;
    CHECK_EQ(rg_set_size(set), size);
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, size);
}

static int launched(void)
{
    const char *open_mpi = getenv("OMPI_COMM_WORLD_SIZE");
    const char *mpich = getenv("PMI_SIZE");
    CHECK(open_mpi != NULL || mpich != NULL);
    return atoi(open_mpi != NULL ? open_mpi : mpich);
}

static void world(const char *pset)
{
    MPI_Comm all, half;
    rg_set *set = NULL;
    CHECK_OK(rg_init_session(pset, NULL, &ctx));
    claim_mpi_is_not_initialised();
    claim_sums(rg_world(ctx), launched());
    CHECK_OK(rg_set_mpi_comm(rg_world(ctx), &all));
    MPI_Comm_split(all, rg_rank(ctx) % 2, 0, &half);
    CHECK_OK(rg_set_create_mpi(ctx, half, NULL, &set));
    claim_sums(set, (launched() + 1 - rg_rank(ctx) % 2) / 2);
    CHECK_OK(rg_set_destroy(set));
    MPI_Comm_free(&half);
    MPI_Comm_free(&all);
    CHECK_OK(rg_finalize(ctx));
}

static void self(void)
{
    CHECK_STATUS(rg_init_session("", NULL, &ctx), RG_ERR_INVALID);
    CHECK_STATUS(rg_init_session("mpi://NOBODY", NULL, &ctx), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "knows no process set mpi://NOBODY; it knows "
                                  "mpi://WORLD") != NULL);
    CHECK_OK(rg_init_session("mpi://SELF", NULL, &ctx));
    claim_mpi_is_not_initialised();
    claim_sums(rg_world(ctx), 1);
    CHECK_OK(rg_finalize(ctx));
}

int main(int argc, char **argv)
{
    if (dlsym(RTLD_DEFAULT, "MPI_Session_init") == NULL)
        no_session();
    else if (argc > 1 && strcmp(argv[1], "self") == 0)
        self();
    else
        world(argc > 1 && strstr(argv[1], "://") != NULL ? argv[1]
                                                         : "mpi://WORLD");
    return 0;
}
