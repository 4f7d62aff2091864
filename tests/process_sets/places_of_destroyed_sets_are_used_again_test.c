/* A control segment has room for 255 sets of a program, and ids rise for ever:
 * more sets than that follow each other, with one that lives on; what a former
 * set left in the place is never taken for the present one's. A rank that gives
 * back later than others makes the ids differ, and still all agree.
 *
 * Covers: table.c */
#include "tests/lib/world.h"

#define SETS 700

static void use(rg_set *set, int round)
{
    static char data[20000];
    const uint64_t count = round % 3 == 0 ? 1 : round % 3 == 1 ? 1000 : 20000;
    memset(data, round % 50, count);
    CHECK_OK(rg_allreduce(set, data, data, count, RG_U8, RG_SUM));
    CHECK_EQ(data[0], 2 * (round % 50));
    CHECK_EQ(data[count - 1], 2 * (round % 50));
}

static void one_after_another(world *w)
{
    const int there[2] = {0, 1}, back[2] = {1, 0};
    rg_set *stays = NULL, *late = NULL;
    CHECK_OK(rg_set_create(w->ctx, there, 2, NULL, &stays));
    for (int i = 0; i < SETS; i++) {
        rg_set *set = NULL;
        CHECK_OK(rg_set_create(w->ctx, i % 2 ? there : back, 2, NULL, &set));
        use(set, i);
        if (i % 100 == 0)
            use(stays, i);
        if (w->index == 0) {
            rg_set_destroy(set);
        } else { /* one turn later */
            rg_set_destroy(late);
            late = set;
        }
    }
    rg_set_destroy(late);
    use(stays, 1);
    CHECK_OK(rg_set_destroy(stays));
}

static void too_many(world *w)
{
    const int both[2] = {0, 1};
    const rg_set_params named = {sizeof named, "named"};
    static rg_set *set[RG__SETS_PROGRAM + 1];
    for (int i = 0; i < RG__SETS_PROGRAM; i++)
        CHECK_OK(
            rg_set_create(w->ctx, both, 2, i == 7 ? &named : NULL, &set[i]));
    CHECK_STATUS(rg_set_create(w->ctx, both, 2, NULL, &set[RG__SETS_PROGRAM]),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "255 sets live already"));
    CHECK_OK(rg_set_create(w->ctx, both, 2, &named, &set[RG__SETS_PROGRAM]));
    CHECK(set[7] == set[RG__SETS_PROGRAM]); /* no other is needed for that */
    CHECK_OK(rg_set_destroy(set[100]));
    CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &set[100]));
    use(set[100], 2);
    use(set[254], 4);
}

static void all(world *w, void *arg)
{
    (void)arg;
    one_after_another(w);
    too_many(w);
}

int main(void)
{
    world_of(2, all, NULL);
    return 0;
}
