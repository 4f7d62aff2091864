/* A rank whose call is refused has its own reason; the others, which have
 * started the operation, get ERR_MISMATCH with a sentence that names it and its
 * status. None waits, and the set stays usable.
 *
 * Covers: core/progress.c process_sets/call.c process_sets/open_group.c */
#include "tests/lib/world.h"

#define N     3
#define COUNT 30000

static float send[N * COUNT], recv[N * COUNT];

static rg_status call(rg_set *set, int which, const void *from)
{
    switch (which) {
    case 0:
        return rg_allreduce(set, from, recv, COUNT, RG_F32, RG_SUM);
    case 1:
        return rg_allgather(set, from, recv, 5, RG_F32);
    case 2:
        return rg_reduce_scatter(set, from, recv, COUNT, RG_F32, RG_SUM);
    default:
        return rg_alltoall(set, from, recv, 5, RG_F32);
    }
}

static void claim_named(void)
{
    CHECK(strstr(rg_last_error(), "refused (RG_ERR_INVALID)") != NULL);
    CHECK(strstr(rg_last_error(), " rank 1") != NULL);
    CHECK(strstr(rg_last_error(), " ranks 0,2") != NULL);
}

static void claim_usable(rg_set *set, int rank)
{
    send[0] = (float)rank;
    CHECK_OK(rg_allreduce(set, send, recv, 1, RG_F32, RG_SUM));
    CHECK(recv[0] == 3);
}

static void refuse_one(rg_set *set, int rank, int which)
{
    const rg_status st = call(set, which, rank == 1 ? NULL : send);
    CHECK_STATUS(st, rank == 1 ? RG_ERR_INVALID : RG_ERR_MISMATCH);
    if (rank == 1)
        CHECK(strstr(rg_last_error(), "NULL buffer") != NULL);
    else
        claim_named();
    claim_usable(set, rank);
}

/* Two sets, and the call that is refused is the second on the first of them. */
static void refuse_in_group(world *w, rg_set *set, int rank)
{
    rg_req *req[3] = {NULL};
    rg_set *other = rg_world(w->ctx);
    CHECK_OK(rg_group_start(w->ctx));
    CHECK_OK(
        rg_allreduce_start(set, send, recv, 1, RG_F32, RG_SUM, NULL, &req[0]));
    const rg_status st =
        rg_allreduce_start(set, rank == 1 ? NULL : send, recv + 1, 1, RG_F32,
                           RG_SUM, NULL, &req[1]);
    CHECK_STATUS(st, rank == 1 ? RG_ERR_INVALID : RG_OK);
    CHECK_OK(rg_allreduce_start(other, send, recv + 2, 1, RG_F32, RG_SUM, NULL,
                                &req[2]));
    CHECK_STATUS(rg_group_end(w->ctx), rank == 1 ? RG_ERR_INVALID : RG_OK);
    for (int i = 0; i < 3; i++) {
        if (req[i] == NULL)
            continue;
        CHECK_STATUS(rg_wait(&req[i], -1),
                     rank == 1 ? RG_ERR_INVALID : RG_ERR_MISMATCH);
        if (rank != 1)
            claim_named();
    }
    claim_usable(set, rank);
    claim_usable(other, rank);
}

/* All of them: there is nothing to tell. */
static void refuse_all(rg_set *set, int rank)
{
    CHECK_STATUS(call(set, 0, NULL), RG_ERR_INVALID);
    claim_usable(set, rank);
}

static void refuse(world *w, void *arg)
{
    (void)arg;
    const int rank = rg_rank(w->ctx);
    rg_set *set = rg_world(w->ctx);
    for (int turn = 0; turn < 20; turn++)
        for (int which = 0; which < 4; which++)
            refuse_one(set, rank, which);
    refuse_all(set, rank);
    CHECK_OK(rg_set_create(w->ctx, (const int[]){0, 1, 2}, N, NULL, &set));
    for (int turn = 0; turn < 20; turn++)
        refuse_in_group(w, set, rank);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], refuse, NULL);
    return 0;
}
