/* A descriptor may name a segment whose mapping is still on its way to a peer:
 * that peer's operation waits for it, and is right once it has arrived.
 *
 * Covers: mapping.c zero_copy.c */
#include "tests/lib/world.h"

#define COUNT 100000

static void one_is_late(world *w, void *arg)
{
    (void)arg;
    int32_t *data = (int32_t *)(void *)w->alloc;
    for (int i = 0; i < COUNT; i++)
        data[i] = i + w->index;
    for (int owner = 0; owner < w->n; owner++)
        if (w->index != 1 || owner != 0)
            world_map(w, owner);
    world_meet(w);
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), data, data, COUNT, RG_I32,
                                RG_SUM, NULL, &req));
    CHECK_STATUS(rg_wait(&req, 50), RG_IN_PROGRESS);
    world_meet(w);
    if (w->index == 1)
        world_map(w, 0);
    CHECK_OK(rg_wait(&req, -1));
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(data[i], 3 * i + 3);
}

int main(void)
{
    const world_params params = {.n = 3, .is_bare = 1};
    world_run(&params, one_is_late, NULL);
    return 0;
}
