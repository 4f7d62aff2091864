/* What a change of membership does to sets: those whose members are all here
 * are open again under the same handle, with ranks that moved; those with a
 * lost member end; the newcomer has rank 0's table and finds sets by name.
 *
 * Covers: sync.c sets.c own_calls.c colors.c table.c */
#include "tests/lib/world.h"

static rg_set *make(world *w, const char *name, const int *ranks, int n)
{
    const rg_set_params params = {sizeof params, name};
    rg_set *set = NULL;
    CHECK_OK(
        rg_set_create(w->ctx, ranks, n, name == NULL ? NULL : &params, &set));
    return set;
}

static void check_sum(rg_set *set, int want)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, want);
}

typedef struct seen {
    int n;
    char text[200];
} seen;

static void see(void *arg, const rg__set_info *set)
{
    seen *s = arg;
    s->n++;
    const size_t used = strlen(s->text);
    snprintf(s->text + used, sizeof s->text - used, "%s:", set->name);
    for (int i = 0; i < set->n; i++) {
        const size_t at = strlen(s->text);
        snprintf(s->text + at, sizeof s->text - at, "%d%s", set->ranks[i],
                 i + 1 < set->n ? "," : " ");
    }
}

static void check_table(world *w, const char *want)
{
    seen s = {0};
    rg__sets_each(w->ctx, see, &s);
    CHECK_STR(s.text, want);
}

static void check_left(rg_set *set, rg_status st)
{
    rg_req *req = NULL;
    CHECK_STATUS(rg_barrier_start(set, NULL, &req), st);
    CHECK_EQ(rg_set_rank(rg_world(NULL)), -1);
}

/* Processes 0, 1, 2 are generation 1; 1 is lost, 3 comes: generation 2 is 0, 2,
 * 3; then 2 leaves as announced, and 3 and 0 are generation 3, 3 first. */
static void survivor(world *w)
{
    static const int g1[] = {0, 1, 2}, g2[] = {0, 2, 3}, g3[] = {3, 0};
    world_enter(w, 1, g1, 3);
    CHECK_OK(rg__sets_sync(w->ctx));
    rg_set *ends = make(w, "ends", (const int[]){2, 0}, 2);
    rg_set *whole = make(w, "whole", (const int[]){0, 1, 2}, 3);
    rg_set *plain = make(w, NULL, (const int[]){0}, 1);
    check_table(w, "ends:2,0 whole:0,1,2 set3:0 ");
    check_sum(whole, 3);
    world_meet_some(w, 1, 3);
    if (w->index == 1)
        return;
    world_abort(w, w->index, 1);
    world_await_left(w);
    check_left(ends, RG_ERR_PEER_LOST);
    check_left(whole, RG_ERR_PEER_LOST);
    check_left(rg_world(w->ctx), RG_ERR_PEER_LOST);

    world_enter(w, 2, g2, 3);
    check_left(ends, RG_ERR_PEER_LOST); /* not before the sync */
    CHECK_OK(rg__sets_sync(w->ctx));
    check_table(w, "ends:1,0 set3:0 ");
    check_sum(ends, 2);
    check_left(whole, RG_ERR_SET_ENDED);
    CHECK_EQ(rg_set_rank(whole), -1);
    CHECK(make(w, "ends", (const int[]){1, 0}, 2) == ends);
    rg_set *again = make(w, "whole", (const int[]){0, 1, 2}, 3);
    CHECK(again != whole);
    CHECK(rg_set_id(again) != rg_set_id(whole));
    check_sum(again, 3);
    check_left(whole, RG_ERR_SET_ENDED);
    CHECK_OK(rg_set_destroy(whole));
    check_sum(again, 3);

    world_meet_some(w, 2, 3);
    world_leave(w, RG_ERR_HOSTS_CHANGED);
    check_left(again, RG_ERR_HOSTS_CHANGED);
    if (w->index == 2)
        return;
    world_enter(w, 3, g3, 2);
    CHECK_OK(rg__sets_sync(w->ctx));
    check_table(w, "set3:1 ");
    check_left(ends, RG_ERR_SET_ENDED);
    check_sum(plain, 1);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

static void newcomer(world *w)
{
    static const int g2[] = {0, 2, 3}, g3[] = {3, 0};
    world_enter(w, 2, g2, 3);
    CHECK_OK(rg__sets_sync(w->ctx));
    check_table(w, "ends:1,0 set3:0 ");
    rg_set *ends = make(w, "ends", (const int[]){1, 0}, 2);
    check_left(ends, RG_ERR_NOT_MEMBER);
    rg_set *whole = make(w, "whole", (const int[]){0, 1, 2}, 3);
    check_sum(whole, 3);
    check_sum(whole, 3);
    world_meet_some(w, 2, 3);
    world_leave(w, RG_ERR_HOSTS_CHANGED);
    world_enter(w, 3, g3, 2);
    CHECK_OK(rg__sets_sync(w->ctx));
    check_table(w, "set3:1 ");
    check_left(ends, RG_ERR_SET_ENDED);
    check_left(whole, RG_ERR_SET_ENDED);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
}

static void play(world *w, void *arg)
{
    (void)arg;
    if (w->index == 3)
        newcomer(w);
    else
        survivor(w);
}

/* The worker of slot 1 dies, and its replacement has the same slot and rank,
 * but is no member. */
static void replaced(world *w, void *arg)
{
    static const int both[] = {0, 1};
    (void)arg;
    world_enter(w, 1, both, 2);
    CHECK_OK(rg__sets_sync(w->ctx));
    rg_set *pair = make(w, "pair", both, 2);
    world_meet(w);
    world_abort(w, w->index, 1);
    world_await_left(w);
    w->member[1].start++;
    w->ctx->me = w->member[w->index];
    world_enter(w, 2, both, 2);
    CHECK_OK(rg__sets_sync(w->ctx));
    check_left(pair, RG_ERR_SET_ENDED);
    check_sum(rg_world(w->ctx), 2);
}

int main(void)
{
    world_params params = {.n = 4, .is_outside = 1};
    world_run(&params, play, NULL);
    params.n = 2;
    world_run(&params, replaced, NULL);
    return 0;
}
