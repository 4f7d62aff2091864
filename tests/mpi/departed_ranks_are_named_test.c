/* A rank calls rg_finalize while others wait for it, in the world and in a set:
 * they get an error that names the rank, and sets without it go on.
 *
 * Covers: check.c mpi/world.c */
#include <unistd.h>

#include "tests/mpi/mpi_check.h"

static rg_ctx *ctx;

static void claim_named(const char *name)
{
    char said[64];
    snprintf(said, sizeof said, "%s waits for its rank 1, which has called",
             name);
    if (strstr(rg_last_error(), said) == NULL)
        CHECK_FAIL("\"%s\" does not say: %s", rg_last_error(), said);
}

static void waits_in_vain(rg_set *both, rg_set *rest)
{
    CHECK_STATUS(rg_barrier(rg_world(ctx)), RG_ERR_PEER_LOST);
    claim_named("the world");
    if (rg_rank(ctx) == 0) {
        CHECK_STATUS(rg_barrier(both), RG_ERR_PEER_LOST);
        claim_named("set both");
    }
    CHECK_OK(rg_barrier(rest));
}

int main(void)
{
    const int first[] = {0, 1}, others[] = {0, 2};
    const rg_set_params params = {.size = sizeof params, .name = "both"};
    rg_set *both = NULL, *rest = NULL;
    int level = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    CHECK_OK(rg_init(NULL, &ctx));
    CHECK_OK(rg_set_create(ctx, first, 2, &params, &both));
    CHECK_OK(rg_set_create(ctx, others, 2, NULL, &rest));
    /* what it has started itself goes on without it */
    int one = rg_rank(ctx);
    if (one == 2)
        usleep(200000);
    CHECK_OK(rg_broadcast(rg_world(ctx), &one, 1, RG_I32, 1));
    CHECK_EQ(one, 1);
    if (rg_rank(ctx) != 1)
        waits_in_vain(both, rest);
    fflush(NULL);
    CHECK_OK(rg_finalize(ctx));
    MPI_Finalize();
    return 0;
}
