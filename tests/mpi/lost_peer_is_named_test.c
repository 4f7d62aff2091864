/* A rank is killed, and its launcher lets the others live. An operation tells
 * them which rank is lost, even those that wait for a live one; a set without
 * it goes on, and none is made with it; and rg_finalize returns.
 *
 * Covers: lost.c peer_watch.c watchdog.c */
#include <signal.h>
#include <unistd.h>

#include "tests/mpi/mpi_check.h"

#define VICTIM 1

static rg_ctx *ctx;

static void sum(rg_set *set)
{
    const int one = 1;
    int n = 0;
    CHECK_OK(rg_allreduce(set, &one, &n, 1, RG_I32, RG_SUM));
    CHECK_EQ(n, rg_set_size(set));
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    const int others[] = {3, 2, 0};
    rg_set *all = NULL, *rest = NULL;
    CHECK_OK(rg_set_create(ctx, (const int[]){0, 1, 2, 3}, 4, NULL, &all));
    CHECK_OK(rg_set_create(ctx, others, 3, NULL, &rest));
    sum(all);
    if (rg_rank(ctx) == VICTIM)
        raise(SIGKILL);
    sum(rest);
    /* from rank 3, which is behind the victim: 0 and 2 wait for the living */
    int data[4] = {0};
    rg_status st = RG_OK;
    while (st == RG_OK)
        st = rg_allreduce(all, data, data + 2, 1, RG_I32, RG_MAX);
    CHECK_STATUS(st, RG_ERR_PEER_LOST);
    if (strstr(rg_last_error(), "rank 1 of set") == NULL &&
        strstr(rg_last_error(), "its rank 1, which is lost") == NULL)
        CHECK_FAIL("\"%s\" does not name rank 1", rg_last_error());
    CHECK_STATUS(rg_barrier(all), RG_ERR_PEER_LOST);
    for (int i = 0; i < 20; i++)
        sum(rest);
    CHECK_STATUS(rg_set_create_mpi(ctx, MPI_COMM_WORLD, NULL, &all),
                 RG_ERR_PEER_LOST);
    if (strstr(rg_last_error(), "rank 1 of the world") == NULL)
        CHECK_FAIL("\"%s\" does not name rank 1", rg_last_error());
    sum(rest); /* all have asked before one of them ends */
    printf("rank %d goes on\n", rg_rank(ctx));
    fflush(stdout);
    sum(rest); /* all have said so: a launcher may kill the rest then */
    CHECK_OK(rg_finalize(ctx));
    fflush(NULL);
    _exit(0);
}
