/* B45: a process calls rg_finalize while others begin operations that need it:
 * these return an error that names the rank, small and large ones alike, also
 * if it had begun them and its memory has gone with it; operations that had
 * completed stay so, and a set without that rank goes on. There is no agent
 * here that could end the generation.
 *
 * Covers: engine.c */
#include <stdlib.h>

#include "tests/lib/world.h"

#define LARGE ((uint64_t)4 << 20)

static void check_others_go_on(rg_set *rest)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(rest, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, 2);
}

static void all(world *w, void *arg)
{
    static const int others[] = {2, 0}, all[] = {0, 1, 2};
    const uint64_t *count = arg;
    rg_set *rest = NULL, *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, others, 2, NULL, &rest));
    CHECK_OK(rg_set_create(w->ctx, all, 3, NULL, &set));
    char *data = calloc(1, LARGE);
    CHECK(data != NULL);
    CHECK_OK(rg_allreduce(set, data, data, *count, RG_U8, RG_SUM));
    if (w->index != 1) {
        CHECK_STATUS(rg_allreduce(set, data, data, *count, RG_U8, RG_SUM),
                     RG_ERR_PEER_LOST);
        CHECK(strstr(rg_last_error(), "its rank 1, which has called"));
        check_others_go_on(rest);
        CHECK_STATUS(rg_barrier(rg_world(w->ctx)), RG_ERR_PEER_LOST);
        check_others_go_on(rest);
    }
    free(data);
}

/* Rank 1 has begun as well, but its memory goes with it. */
static void its_memory_has_gone(world *w, void *arg)
{
    (void)arg;
    for (int owner = 0; owner < w->n; owner++)
        if (owner != 1 || w->index == 1)
            world_map(w, owner);
    static rg_req *req; /* rank 1 never takes it */
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), w->alloc, w->alloc, 100000,
                                RG_U8, RG_SUM, NULL, &req));
    world_meet(w);
    if (w->index == 1)
        return;
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
    CHECK(strstr(rg_last_error(), "its rank 1, which has called"));
}

int main(void)
{
    static uint64_t counts[] = {1, LARGE};
    const world_params params = {.n = 3, .hosts = "000"};
    for (int i = 0; i < 2; i++)
        world_run(&params, all, &counts[i]);
    const world_params bare = {.n = 3, .hosts = "000", .is_bare = 1};
    world_run(&bare, its_memory_has_gone, NULL);
    return 0;
}
