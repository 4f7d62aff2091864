/* An operation on one set waits for a late member, while later ones on other
 * sets, also of the same thread and over the same ranks, go through. */
#include "tests/lib/world.h"

#define ROUNDS 20

static rg_set *make(world *w, const char *name, const int *ranks, int n)
{
    const rg_set_params params = {sizeof params, name};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, n, &params, &set));
    return set;
}

static void sum_one(rg_set *set)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, rg_set_size(set));
}

static void all(world *w, void *arg)
{
    (void)arg;
    rg_set *late = make(w, "late", (const int[]){0, 1, 2}, 3);
    rg_set *same = make(w, "same", (const int[]){2, 1, 0}, 3);
    rg_set *pair = make(w, "pair", (const int[]){0, 1}, 2);
    for (int i = 0; i < ROUNDS; i++) {
        int32_t one = 1, sum = 0;
        rg_req *req = NULL;
        if (w->index != 2)
            CHECK_OK(rg_allreduce_start(late, &one, &sum, 1, RG_I32, RG_SUM,
                                        NULL, &req));
        sum_one(same);
        sum_one(rg_world(w->ctx));
        if (w->index != 2)
            sum_one(pair);
        if (w->index != 2)
            CHECK_STATUS(rg_test(&req), RG_IN_PROGRESS);
        world_meet(w); /* only now rank 2 comes */
        if (w->index == 2)
            CHECK_OK(rg_allreduce_start(late, &one, &sum, 1, RG_I32, RG_SUM,
                                        NULL, &req));
        CHECK_OK(rg_wait(&req, -1));
        CHECK_EQ(sum, 3);
    }
}

int main(void)
{
    world_of(3, all, NULL);
    return 0;
}
