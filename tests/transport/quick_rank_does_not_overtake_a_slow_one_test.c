/* Small operations have no second barrier: a rank may be done with one, and
 * have published its data of the next, before another has read the first. The
 * slow rank stops between posting and reading (its engine's lock is held), and
 * must still get the data of the first.
 *
 * Covers: flags.c staged.c inline.c */
#include "tests/lib/world.h"

#define COUNT 500

static void fill(int32_t *data, int32_t value)
{
    for (int i = 0; i < COUNT; i++)
        data[i] = value;
}

static void check(const int32_t *data, int32_t value)
{
    for (int i = 0; i < COUNT; i++)
        CHECK_EQ(data[i], value);
}

/* Rank 1: one line posted, then nothing until rank 0 has started the next. */
static void be_slow(world *w, uint64_t count)
{
    int32_t send[COUNT], recv[2][COUNT];
    rg_set *set = rg_world(w->ctx);
    rg_req *req[2] = {NULL, NULL};
    fill(send, 10);
    CHECK_OK(rg_allreduce_start(set, send, recv[0], count, RG_I32, RG_SUM, NULL,
                                &req[0]));
    rg__engine_lock(w->ctx->engine);
    world_meet(w); /* rank 0 may begin */
    world_meet(w); /* rank 0 has started its second */
    rg__engine_unlock(w->ctx->engine);
    CHECK_OK(rg_wait(&req[0], -1));
    CHECK_EQ(recv[0][0], 11);
    CHECK_EQ(recv[0][count - 1], 11);
    fill(send, 20);
    CHECK_OK(rg_allreduce_start(set, send, recv[1], count, RG_I32, RG_SUM, NULL,
                                &req[1]));
    CHECK_OK(rg_wait(&req[1], -1));
    CHECK_EQ(recv[1][0], 22);
}

static void be_quick(world *w, uint64_t count)
{
    int32_t send[COUNT], recv[COUNT];
    rg_set *set = rg_world(w->ctx);
    rg_req *req = NULL;
    world_meet(w);
    fill(send, 1);
    CHECK_OK(rg_allreduce(set, send, recv, count, RG_I32, RG_SUM));
    CHECK_EQ(recv[0], 11);
    fill(send, 2);
    CHECK_OK(
        rg_allreduce_start(set, send, recv, count, RG_I32, RG_SUM, NULL, &req));
    world_meet(w);
    CHECK_OK(rg_wait(&req, -1));
    if (count == COUNT)
        check(recv, 22);
}

static void all(world *w, void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        const uint64_t count = i % 2 == 0 ? 2 : COUNT; /* line, small slot */
        if (w->index == 1)
            be_slow(w, count);
        else
            be_quick(w, count);
        world_meet(w);
    }
}

int main(void)
{
    world_of(2, all, NULL);
    return 0;
}
