/* fn runs from its top after a change: a set made by name is the living set of
 * that name, whichever workers have those ranks by then, and even if there are
 * fewer; one made without a name is a new set. The name is free again once the
 * set was given back everywhere; on some ranks only, it is a mismatch.
 *
 * Covers: set_request.c make.c */
#include "process_sets/among.h"
#include "tests/lib/world.h"

static const int pair[] = {0, 1}, other[] = {1, 2};

static rg_status make(world *w, const char *name, const int *ranks,
                      rg_set **set_p)
{
    const rg_set_params params = {sizeof params, name};
    return rg_set_create(w->ctx, ranks, 2, &params, set_p);
}

static void found_again(world *w)
{
    rg_set *a = NULL, *b = NULL, *c = NULL;
    CHECK_OK(make(w, "pair", pair, &a));
    CHECK_OK(make(w, "pair", pair, &b));
    CHECK(a == b);
    CHECK_STATUS(make(w, "pair", other, &b), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "lives with other members"));
    CHECK_OK(make(w, NULL, pair, &b));
    CHECK_OK(make(w, NULL, pair, &c));
    CHECK(a != b && b != c);
    CHECK_OK(make(w, rg_set_name(b), pair, &c)); /* "set2" names no set */
    CHECK(b != c);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    CHECK_OK(rg_set_destroy(a));
    CHECK_OK(make(w, "pair", other, &a));
    CHECK_EQ(rg_set_rank(a), w->index - 1);
}

static void destroyed_on_some(world *w)
{
    rg_set *a = NULL;
    CHECK_OK(make(w, "half", pair, &a));
    if (w->index == 1)
        CHECK_OK(rg_set_destroy(a));
    rg_set *b = NULL;
    CHECK_STATUS(make(w, "half", pair, &b), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "destroyed on others"));
    if (w->index != 1)
        CHECK_OK(rg_set_destroy(a));
    CHECK_OK(make(w, "half", pair, &b));
}

/* Rank 1 gave the set back, and got it again with rank 0's table: the name is
 * of no set there, so it is not in the way. */
static void given_back_before_a_change(world *w)
{
    static const int all[] = {0, 1, 2};
    rg_set *a = NULL, *b = NULL;
    CHECK_OK(make(w, "early", pair, &a));
    if (w->index == 1)
        CHECK_OK(rg_set_destroy(a));
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    world_leave(w, RG_ERR_HOSTS_CHANGED);
    world_enter(w, 2, all, 3);
    CHECK_OK(rg__sets_sync(w->ctx));
    if (w->index != 1)
        CHECK_OK(rg_set_destroy(a));
    CHECK_OK(make(w, "early", other, &b));
    CHECK_EQ(rg_set_rank(b), w->index - 1);
    int32_t one = 1, sum = 0;
    if (w->index > 0) {
        CHECK_OK(rg_allreduce(b, &one, &sum, 1, RG_I32, RG_SUM));
        CHECK_EQ(sum, 2);
    }
}

/* As members do that make a set alone: here one. */
static rg_status alone(void *arg, const int64_t in[RG__AMONG],
                       int64_t out[RG__AMONG])
{
    (void)arg;
    memcpy(out, in, RG__AMONG * sizeof *in);
    return RG_OK;
}

/* One name and one id on all ranks, and a set of its own on each: the list is
 * that of rank 0's alone. */
static void lives_with_others_elsewhere(world *w)
{
    static const int first[] = {0};
    const rg_set_params params = {sizeof params, "own"};
    rg_set *own = NULL, *set = NULL;
    CHECK_OK(rg__set_create_among(w->ctx, RG_OK, &w->index, 1, &params, alone,
                                  NULL, &own));
    CHECK_STATUS(rg_set_create(w->ctx, first, 1, &params, &set),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "lives with other members"));
    CHECK(set == NULL);
    CHECK_OK(rg_set_destroy(own));
}

static void all(world *w, void *arg)
{
    (void)arg;
    found_again(w);
    destroyed_on_some(w);
    lives_with_others_elsewhere(w);
    given_back_before_a_change(w);
}

static const rg_set_params last = {sizeof last, "last", 0},
                           kept = {sizeof kept, "kept", 1};
static const int last_two[] = {2, 3}, but_one[] = {0, 1, 3};

static void check_same(world *w, const int *ranks, int n,
                       const rg_set_params *params, rg_set **set_p)
{
    rg_set *again = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, n, params, &again));
    CHECK(*set_p == NULL || *set_p == again);
    CHECK_EQ(rg_set_size(again), 2);
    *set_p = again;
}

static void check_again(world *w, rg_set *set[2])
{
    static const int others[] = {0, 1};
    rg_set *none = NULL;
    check_same(w, last_two, 2, &last, &set[0]);
    check_same(w, but_one, 3, &kept, &set[1]);
    CHECK_STATUS(rg_set_create(w->ctx, others, 2, &last, &none),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "lives with other members"));
    CHECK(none == NULL);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

/* Worker 1 goes, and later 4 comes: the others call as before, and a newcomer
 * knows no more than what it was sent. */
static void in_other_worlds(world *w, void *arg)
{
    static const int first[] = {0, 1, 2, 3}, second[] = {0, 2, 3},
                     third[] = {0, 2, 3, 4};
    rg_set *set[2] = {NULL, NULL};
    (void)arg;
    if (w->index != 4) {
        world_enter(w, 1, first, 4);
        CHECK_OK(rg_set_create(w->ctx, last_two, 2, &last, &set[0]));
        CHECK_OK(rg_set_create(w->ctx, but_one, 3, &kept, &set[1]));
        CHECK_OK(rg_barrier(rg_world(w->ctx)));
        world_leave(w, RG_ERR_PEER_LOST);
    }
    if (w->index == 1)
        return;
    if (w->index != 4) {
        world_enter(w, 2, second, 3);
        CHECK_OK(rg__sets_sync(w->ctx));
        check_again(w, set);
        world_leave(w, RG_ERR_HOSTS_CHANGED);
    }
    world_enter(w, 3, third, 4);
    CHECK_OK(rg__sets_sync(w->ctx));
    check_again(w, set);
}

int main(void)
{
    world_of(3, all, NULL);
    const world_params outside = {.n = 5, .is_outside = 1};
    world_run(&outside, in_other_worlds, NULL);
    return 0;
}
