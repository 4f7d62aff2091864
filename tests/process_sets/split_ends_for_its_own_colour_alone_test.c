/* A split that has lost a member of one colour lives on for the others, also
 * when rank 0 has given its own back; made again by name, ranks that have it
 * keep it and the rest have theirs under the same id. A worker that was left
 * out of a generation and is back is in none of the sets that others kept.
 * Workers 0 to 3 are generation 1; then 0, 2, 3; then 1 is back, last; then 3,
 * 2; then 2.
 *
 * Covers: splits.c */
#include "tests/lib/world.h"

typedef struct sets {
    rg_set *halves, *pairs, *kept, *keep;
} sets;

static void check_sum(rg_set *set, int want)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, want);
    CHECK_EQ(rg_set_size(set), want);
}

static rg_set *split(world *w, int color, const char *name, int keeps)
{
    const rg_set_params params = {
        .size = sizeof params, .name = name, .keep = keeps};
    rg_set *set = NULL;
    CHECK_OK(rg_set_split(w->ctx, color, 0, &params, &set));
    return set;
}

static rg_set *list(world *w, int n)
{
    static const int ranks[] = {0, 1, 2, 3};
    const rg_set_params params = {
        .size = sizeof params, .name = "keep", .keep = 1};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, n, &params, &set));
    return set;
}

static void first(world *w, sets *s)
{
    s->halves = split(w, w->index % 2, "halves", 0);
    s->pairs = split(w, w->index / 2, "pairs", 0);
    s->kept = split(w, w->index % 2, "kept", 1);
    s->keep = list(w, 4);
    check_sum(s->halves, 2);
    check_sum(s->pairs, 2);
    check_sum(s->kept, 2);
    check_sum(s->keep, 4);
}

static void check_names_are_kept(world *w, const sets *s)
{
    CHECK(split(w, w->index % 2, "kept", 1) == s->kept);
    CHECK(list(w, 3) == s->keep);
}

/* Worker 1 is left out: 3 is alone of odd number, 0 of the first pair. */
static void second(world *w, sets *s)
{
    const uint32_t id = rg_set_id(s->halves);
    if (w->index == 3) {
        CHECK_STATUS(rg_barrier(s->halves), RG_ERR_SET_ENDED);
        CHECK_OK(rg_set_destroy(s->halves));
    } else {
        check_sum(s->halves, 2);
    }
    if (w->index == 0) {
        CHECK_STATUS(rg_barrier(s->pairs), RG_ERR_SET_ENDED);
        CHECK_OK(rg_set_destroy(s->pairs));
    } else {
        check_sum(s->pairs, 2);
    }
    check_sum(s->kept, w->index == 3 ? 1 : 2);
    check_names_are_kept(w, s);
    rg_set *again = split(w, w->index % 2, "halves", 0);
    CHECK(w->index == 3 || again == s->halves);
    CHECK_EQ(rg_set_id(again), id);
    s->halves = again;
    check_sum(s->halves, w->index == 3 ? 1 : 2);
}

/* Worker 1 is back. Rank 0 knows of the pairs no more than that they are. */
static void third(world *w, sets *s)
{
    if (w->index == 1) {
        CHECK_STATUS(rg_barrier(s->halves), RG_ERR_SET_ENDED);
        CHECK_STATUS(rg_barrier(s->pairs), RG_ERR_SET_ENDED);
        CHECK_STATUS(rg_barrier(s->kept), RG_ERR_SET_ENDED);
        CHECK_STATUS(rg_barrier(s->keep), RG_ERR_NOT_MEMBER);
        CHECK_EQ(rg_set_size(s->keep), 3);
    } else {
        check_sum(s->halves, w->index == 3 ? 1 : 2);
        check_sum(s->kept, w->index == 3 ? 1 : 2);
        check_sum(s->keep, 3);
    }
    if (w->index == 2 || w->index == 3)
        check_sum(s->pairs, 2);
    CHECK(list(w, 3) == s->keep);
}

static void check_list(world *w, const char *want)
{
    rg_set_info info[8];
    char text[200] = "";
    int n = 0;
    CHECK_OK(rg_set_list(w->ctx, info, 8, &n));
    for (int i = 0; i < n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s:%d ",
                 info[i].name, info[i].size);
    CHECK_STR(text, want);
}

static void fourth(world *w, sets *s)
{
    if (w->index == 2)
        CHECK_STATUS(rg_barrier(s->halves), RG_ERR_SET_ENDED);
    else
        check_sum(s->halves, 1);
    check_sum(s->pairs, 2);
    check_list(w, w->index == 2 ? "world:2 pairs:2 kept:1 keep:2 "
                                : "world:2 halves:1 pairs:2 kept:1 keep:2 ");
}

/* The halves live nowhere any more: the name is for another split. */
static void fifth(world *w, sets *s)
{
    const uint32_t id = rg_set_id(s->halves);
    CHECK_STATUS(rg_barrier(s->pairs), RG_ERR_SET_ENDED);
    check_list(w, "world:1 kept:1 keep:1 ");
    CHECK_OK(rg_set_destroy(s->halves));
    s->halves = split(w, 0, "halves", 0);
    CHECK(rg_set_id(s->halves) > id);
    check_sum(s->halves, 1);
}

typedef void (*part_fn)(world *w, sets *s);

static void play(world *w, void *arg)
{
    static const int members[5][4] = {
        {0, 1, 2, 3}, {0, 2, 3}, {0, 2, 3, 1}, {3, 2}, {2}};
    static const int sizes[5] = {4, 3, 4, 2, 1};
    static const part_fn parts[5] = {first, second, third, fourth, fifth};
    sets s = {0};
    (void)arg;
    for (int g = 0; g < 5; g++) {
        bool is_in = false;
        for (int i = 0; i < sizes[g]; i++)
            is_in = is_in || members[g][i] == w->index;
        if (is_in) {
            world_enter(w, (uint64_t)g + 1, members[g], sizes[g]);
            CHECK_OK(rg__sets_sync(w->ctx));
            parts[g](w, &s);
            world_meet_some(w, g, sizes[g]);
            world_leave(w, RG_ERR_HOSTS_CHANGED);
        }
    }
}

int main(void)
{
    const world_params params = {.n = 4, .is_outside = 1};
    world_run(&params, play, NULL);
    return 0;
}
