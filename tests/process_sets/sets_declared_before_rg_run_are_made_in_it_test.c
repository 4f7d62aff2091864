/* An elastic program makes sets before it has any rank: they are declared, and
 * made when the first generation begins; a later worker's declarations are
 * matched with the others' sets, by name or by order, and a rule is right at
 * once. Workers 0 to 2 are generation 1; worker 1 is lost, 3 comes: 0, 2, 3.
 * Declarations that differ, and ranks that the world lacks, are named on all
 * ranks.
 *
 * Covers: declared.c */
#include "tests/lib/world.h"

typedef struct sets {
    rg_set *rule, *plain, *second, *keep;
} sets;

static int parity(rg_ctx *ctx, void *arg)
{
    (void)arg;
    return rg_rank(ctx) % 2;
}

static void check_sum(rg_set *set, int want)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, want);
    CHECK_EQ(rg_set_size(set), want);
}

static rg_status list(world *w, const char *name, int keep, const int *ranks,
                      int n, rg_set **set_p)
{
    const rg_set_params params = {
        .size = sizeof params, .name = name, .keep = keep};
    return rg_set_create(w->ctx, ranks, n, &params, set_p);
}

static void declare(world *w, sets *s)
{
    static const int plain[] = {2, 0}, second[] = {1}, keep[] = {1, 2, 0};
    static const int twice[] = {1, 1};
    const rg_set_params params = {.size = sizeof params, .name = "parity"};
    rg_set *again = NULL, *gone = NULL;
    CHECK_OK(rg_set_create_by(w->ctx, parity, w, &params, &s->rule));
    CHECK_OK(list(w, NULL, 0, plain, 2, &s->plain));
    CHECK_OK(list(w, NULL, 0, second, 1, &s->second));
    CHECK_OK(list(w, "keep", 1, keep, 3, &s->keep));
    CHECK_OK(list(w, "keep", 1, keep, 3, &again));
    CHECK(again == s->keep);
    CHECK_STATUS(list(w, "keep", 1, plain, 2, &again), RG_ERR_INVALID);
    CHECK_STATUS(list(w, NULL, 0, twice, 2, &again), RG_ERR_INVALID);
    CHECK_STATUS(rg_set_split(w->ctx, 0, 0, NULL, &again), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "before rg_run"));
    CHECK_OK(list(w, "gone", 0, plain, 2, &gone));
    CHECK_OK(rg_set_destroy(gone));
    CHECK_STATUS(rg_barrier(s->rule), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "before rg_run"));
    CHECK_EQ(rg_set_rank(s->plain), -1);
}

static void check_ids_are_equal(world *w, const sets *s)
{
    const uint32_t mine[4] = {rg_set_id(s->rule), rg_set_id(s->plain),
                              rg_set_id(s->second), rg_set_id(s->keep)};
    const uint32_t want[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        CHECK(mine[i] == want[i] || (i == 2 && w->index == 3));
}

static void first(world *w, const sets *s)
{
    check_ids_are_equal(w, s);
    check_sum(s->rule, w->index == 1 ? 1 : 2);
    CHECK_EQ(rg_set_rank(s->plain), w->index == 1 ? -1 : w->index == 0);
    if (w->index != 1)
        check_sum(s->plain, 2);
    CHECK_EQ(rg_set_rank(s->second), w->index == 1 ? 0 : -1);
    CHECK_EQ(rg_set_rank(s->keep), (w->index + 2) % 3);
    check_sum(s->keep, 3);
}

/* No rank has called anything in this generation. */
static void second(world *w, const sets *s)
{
    check_ids_are_equal(w, s);
    check_sum(s->rule, w->index == 2 ? 1 : 2);
    CHECK_STATUS(rg_barrier(s->second), RG_ERR_SET_ENDED);
    if (w->index == 3) {
        CHECK_STATUS(rg_barrier(s->plain), RG_ERR_NOT_MEMBER);
        CHECK_STATUS(rg_barrier(s->keep), RG_ERR_NOT_MEMBER);
        return;
    }
    check_sum(s->plain, 2);
    CHECK_EQ(rg_set_rank(s->keep), w->index == 0);
    check_sum(s->keep, 2);
}

static void check_name_is_found(world *w, const sets *s)
{
    const rg_set_params params = {.size = sizeof params, .name = "parity"};
    rg_set *again = NULL;
    CHECK_OK(rg_set_create_by(w->ctx, parity, w, &params, &again));
    CHECK(again == s->rule);
}

static void follow_their_workers(world *w, void *arg)
{
    static const int g1[] = {0, 1, 2}, g2[] = {0, 2, 3};
    sets s = {0};
    (void)arg;
    w->ctx->is_elastic = true;
    declare(w, &s);
    if (w->index != 3) {
        world_enter(w, 1, g1, 3);
        CHECK_OK(rg__sets_sync(w->ctx));
        first(w, &s);
        check_name_is_found(w, &s);
        world_meet_some(w, 1, 3);
        if (w->index == 1)
            return;
        world_abort(w, w->index, 1);
        world_await_left(w);
    }
    world_enter(w, 2, g2, 3);
    CHECK_OK(rg__sets_sync(w->ctx));
    second(w, &s);
    check_name_is_found(w, &s);
    CHECK_OK(rg_set_destroy(s.second));
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

static void are_not_alike(world *w, void *arg)
{
    static const int all[] = {0, 1, 2};
    const int ranks[] = {0, w->index == 2 ? 2 : 1};
    rg_set *set = NULL;
    (void)arg;
    w->ctx->is_elastic = true;
    CHECK_OK(list(w, "pair", 0, ranks, 2, &set));
    world_enter(w, 1, all, 3);
    CHECK_STATUS(rg__sets_sync(w->ctx), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "before rg_run"));
    CHECK(strstr(rg_last_error(), "rank 2"));
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

/* The same two sets, in another order on one rank. */
static void are_in_another_order(world *w, void *arg)
{
    static const int all[] = {0, 1, 2}, ranks[] = {0, 1};
    const char *names[] = {"first", "second"};
    (void)arg;
    w->ctx->is_elastic = true;
    for (int i = 0; i < 2; i++) {
        rg_set *set = NULL;
        CHECK_OK(list(w, names[i ^ (w->index == 2)], 0, ranks, 2, &set));
    }
    world_enter(w, 1, all, 3);
    CHECK_STATUS(rg__sets_sync(w->ctx), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "before rg_run"));
}

static void are_too_many(world *w, void *arg)
{
    static const int all[] = {0, 1, 2}, ranks[] = {0, 3};
    rg_set *set = NULL;
    (void)arg;
    w->ctx->is_elastic = true;
    CHECK_OK(list(w, "far", 0, ranks, 2, &set));
    world_enter(w, 1, all, 3);
    CHECK_STATUS(rg__sets_sync(w->ctx), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "rank 3, and generation 1 has 3 workers"));
}

int main(void)
{
    world_params params = {.n = 4, .is_outside = 1};
    world_run(&params, follow_their_workers, NULL);
    params.n = 3;
    world_run(&params, are_not_alike, NULL);
    world_run(&params, are_in_another_order, NULL);
    world_run(&params, are_too_many, NULL);
    return 0;
}
