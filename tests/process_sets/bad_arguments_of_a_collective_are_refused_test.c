/* Arguments that can't be right on any rank: ERR_INVALID at once, with a
 * sentence, and nothing is started; also before rg_run.
 *
 * Covers: call.c */
#include "tests/lib/world.h"

#define REFUSED(call, words)                                                   \
    do {                                                                       \
        CHECK_STATUS(call, RG_ERR_INVALID);                                    \
        if (strstr(rg_last_error(), words) == NULL)                            \
            CHECK_FAIL("\"%s\" is not in \"%s\"", words, rg_last_error());     \
        CHECK(req == NULL);                                                    \
    } while (0)

static void refused(world *w, void *arg)
{
    (void)arg;
    static int32_t a[8], b[8];
    rg_set *set = rg_world(w->ctx);
    rg_req *req = NULL;
    const uint64_t counts[2] = {1, 1}, beyond[2] = {0, UINT64_MAX};
    const rg_op_params no_size = {0};
    const rg_op_params far = {.size = sizeof far, .root = 2};
    const rg_op_params below = {.size = sizeof below, .root = -1};
    REFUSED(rg_allreduce_start(NULL, a, b, 1, RG_I32, RG_SUM, NULL, &req),
            "needs a set");
    CHECK_STATUS(rg_allreduce_start(set, a, b, 1, RG_I32, RG_SUM, NULL, NULL),
                 RG_ERR_INVALID);
    REFUSED(rg_allreduce_start(set, NULL, b, 1, RG_I32, RG_SUM, NULL, &req),
            "NULL buffer");
    REFUSED(rg_allreduce_start(set, a, NULL, 1, RG_I32, RG_SUM, NULL, &req),
            "NULL buffer");
    REFUSED(rg_allreduce_start(set, a, b, 1, (rg_type)17, RG_SUM, NULL, &req),
            "no type 17");
    REFUSED(rg_allreduce_start(set, a, b, 1, RG_I32, (rg_op)19, NULL, &req),
            "no op 19");
    REFUSED(rg_allreduce_start(set, a, b, UINT64_MAX / 3, RG_I32, RG_SUM, NULL,
                               &req),
            "more than memory holds");
    REFUSED(rg_allreduce_start(set, a, a + 1, 2, RG_I32, RG_SUM, NULL, &req),
            "overlap");
    REFUSED(rg_allreduce_start(set, a, b, 1, RG_I32, RG_SUM, &no_size, &req),
            "rg_op_params.size");
    REFUSED(rg_broadcast_start(set, a, 1, RG_I32, &far, &req), "root 2");
    REFUSED(rg_broadcast_start(set, a, 1, RG_I32, &below, &req), "root -1");
    REFUSED(rg_broadcast_start(set, NULL, 1, RG_I32, NULL, &req),
            "NULL buffer");
    REFUSED(rg_allgather_start(set, a + 1, a, 2, RG_I32, NULL, &req),
            "overlap");
    REFUSED(rg_allgather_start(set, a, b, INT64_MAX / 4, RG_I32, NULL, &req),
            "more than memory holds");
    REFUSED(rg_barrier_start(set, &no_size, &req), "rg_op_params.size");
    REFUSED(
        rg_allgatherv_start(set, a, 1, b, counts, beyond, RG_I32, NULL, &req),
        "part of rank 1 is more than memory holds");
    CHECK_OK(rg_allreduce(set, NULL, NULL, 0, RG_I32, RG_SUM));
    CHECK_OK(rg_barrier(set));
}

static void before_the_door(world *w, void *arg)
{
    (void)arg;
    const int ranks[1] = {0};
    rg_set *made = NULL;
    int32_t one = 1, sum = 0;
    CHECK_STATUS(rg_allreduce(rg_world(w->ctx), &one, &sum, 1, RG_I32, RG_SUM),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "before rg_run"));
    CHECK_STATUS(rg_broadcast(rg_world(w->ctx), &one, 1, RG_I32, 3),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_set_create(w->ctx, ranks, 1, NULL, &made), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "before rg_run"));
    CHECK_EQ(rg_set_rank(rg_world(w->ctx)), -1);
    CHECK_EQ(rg_set_size(rg_world(w->ctx)), -1);
}

int main(void)
{
    const world_params outside = {.n = 2, .is_outside = 1};
    world_of(2, refused, NULL);
    world_run(&outside, before_the_door, NULL);
    CHECK(rg_world(NULL) == NULL);
    CHECK_EQ(rg_set_rank(NULL), -1);
    CHECK_EQ(rg_set_size(NULL), -1);
    return 0;
}
