/* B20, B67: a split gives each rank the set of its own colour, in the order of
 * keys; a rule is applied again in every generation under the same handle, id
 * and name; a set to keep shrinks to the remaining members; ranks are
 * translated, and all sets are listed. Workers 0 to 3 are generation 1; worker
 * 1 is lost, 4 comes: generation 2 is 0, 2, 3, 4.
 *
 * Covers: colors.c sync.c */
#include "tests/lib/world.h"

static void check_sum(rg_set *set, int want)
{
    int32_t one = 1, sum = 0;
    double large[20000];
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, want);
    for (int i = 0; i < 20000; i++)
        large[i] = i;
    CHECK_OK(rg_allreduce(set, large, large, 20000, RG_F64, RG_AVG));
    CHECK(large[19999] == 19999);
}

/* Even and odd ranks; worker 3 has none in generation 1. */
static int parity(rg_ctx *ctx, void *arg)
{
    const world *w = arg;
    const int rank = rg_rank(ctx);
    return w->index == 3 && rg_generation(ctx) == 1 ? RG_NO_COLOR : rank % 2;
}

static rg_set *make_rule(world *w)
{
    rg_set_params params = {.size = sizeof params, .name = "parity"};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create_by(w->ctx, parity, w, &params, &set));
    return set;
}

static void check_translation(world *w, rg_set *back)
{
    const int ranks[2] = {0, 2};
    int out[2] = {-7, -7};
    CHECK_OK(rg_set_translate(back, ranks, 2, rg_world(w->ctx), out));
    CHECK_EQ(out[0], 3);
    CHECK_EQ(out[1], 1);
    CHECK_OK(rg_set_translate(rg_world(w->ctx), ranks, 2, back, out));
    CHECK_EQ(out[0], -1);
    CHECK_EQ(out[1], 1);
    const int far[1] = {3};
    CHECK_STATUS(rg_set_translate(back, far, 1, back, out), RG_ERR_INVALID);
}

static void first_generation(world *w, rg_set **split, rg_set **rule,
                             rg_set **keep)
{
    static const int back[] = {3, 2, 1};
    const int rank = rg_rank(w->ctx);
    rg_set_params params = {.size = sizeof params, .name = "keep", .keep = 1};
    CHECK_OK(rg_set_split(w->ctx, rank / 2, -rank, NULL, split));
    CHECK_EQ(rg_set_rank(*split), rank % 2 == 0);
    CHECK_EQ(rg_set_size(*split), 2);
    check_sum(*split, 2);
    *rule = make_rule(w);
    CHECK_EQ(rg_set_rank(*rule), rank == 3 ? -1 : rank / 2);
    if (rank != 3)
        check_sum(*rule, rank == 1 ? 1 : 2);
    else
        CHECK_STATUS(rg_barrier(*rule), RG_ERR_NOT_MEMBER);
    CHECK(make_rule(w) == *rule);
    CHECK_OK(rg_set_create(w->ctx, back, 3, &params, keep));
    if (rank > 0)
        check_sum(*keep, 3);
    check_translation(w, *keep);
    rg_set_info info[3];
    int n = 0;
    CHECK_OK(rg_set_list(w->ctx, info, 3, &n));
    CHECK_EQ(n, 4);
    CHECK_STR(info[0].name, "world");
    CHECK_STR(info[2].name, "parity");
    CHECK_EQ(info[1].id, rg_set_id(*split));
    CHECK_EQ(info[1].size, 2);
}

static void second_generation(world *w, rg_set *split, rg_set *rule,
                              rg_set *keep)
{
    const uint32_t id = rg_set_id(rule);
    if (w->index < 2)
        CHECK_STATUS(rg_barrier(split), RG_ERR_SET_ENDED);
    else
        check_sum(split, 2);
    CHECK_EQ(rg_set_size(keep), 2);
    CHECK_EQ(rg_set_rank(keep), w->index == 3 ? 0 : w->index == 2 ? 1 : -1);
    if (w->index != 0)
        check_sum(keep, 2);
    /* the newcomer has not got the rule, so it waits for the call */
    CHECK_STATUS(rg_barrier(rule), RG_ERR_INVALID);
    CHECK(make_rule(w) == rule);
    CHECK_EQ(rg_set_id(rule), id);
    check_sum(rule, 2);
}

static void survivor(world *w)
{
    static const int g1[] = {0, 1, 2, 3}, g2[] = {0, 2, 3, 4}, g3[] = {4, 3, 2};
    rg_set *split = NULL, *rule = NULL, *keep = NULL;
    world_enter(w, 1, g1, 4);
    CHECK_OK(rg__sets_sync(w->ctx));
    first_generation(w, &split, &rule, &keep);
    world_meet_some(w, 1, 4);
    if (w->index == 1)
        return;
    world_abort(w, w->index, 1);
    world_await_left(w);
    world_enter(w, 2, g2, 4);
    CHECK_OK(rg__sets_sync(w->ctx));
    second_generation(w, split, rule, keep);
    world_meet_some(w, 2, 4);
    world_leave(w, RG_ERR_HOSTS_CHANGED);
    if (w->index == 0)
        return;
    world_enter(w, 3, g3, 3); /* all have the rule: it is applied by itself */
    CHECK_OK(rg__sets_sync(w->ctx));
    CHECK_EQ(rg_set_rank(rule), w->index == 2 ? 1 : 0);
    check_sum(rule, w->index == 3 ? 1 : 2);
    check_sum(keep, 2);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

static void newcomer(world *w)
{
    static const int g2[] = {0, 2, 3, 4}, g3[] = {4, 3, 2};
    world_enter(w, 2, g2, 4);
    CHECK_OK(rg__sets_sync(w->ctx));
    rg_set *rule = make_rule(w);
    check_sum(rule, 2);
    world_meet_some(w, 2, 4);
    world_leave(w, RG_ERR_HOSTS_CHANGED);
    world_enter(w, 3, g3, 3);
    CHECK_OK(rg__sets_sync(w->ctx));
    CHECK_EQ(rg_set_rank(rule), 0);
    check_sum(rule, 2);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

static void all(world *w, void *arg)
{
    (void)arg;
    if (w->index == 4)
        newcomer(w);
    else
        survivor(w);
}

int main(void)
{
    const world_params params = {.n = 5, .is_outside = 1};
    world_run(&params, all, NULL);
    return 0;
}
