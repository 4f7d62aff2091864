/* Ranks of a set are the caller's order: subsets, reversed, single; a call on a
 * rank that is not a member fails at once.
 *
 * Covers: lists.c make.c */
#include "tests/lib/world.h"

static rg_set *make(world *w, const char *name, const int *ranks, int n)
{
    const rg_set_params params = {sizeof params, name};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, n, &params, &set));
    CHECK_STR(rg_set_name(set), name);
    CHECK_EQ(rg_set_size(set), n);
    return set;
}

/* Every member sees the world ranks in the order they were given. */
static void check_order(world *w, rg_set *set, const int *ranks, int n)
{
    int32_t mine = w->index, all[WORLD_MAX];
    int rank = -1;
    for (int i = 0; i < n; i++)
        if (ranks[i] == w->index)
            rank = i;
    CHECK_EQ(rg_set_rank(set), rank);
    if (rank < 0) {
        rg_req *req = NULL;
        CHECK_STATUS(rg_allgather(set, &mine, all, 1, RG_I32),
                     RG_ERR_NOT_MEMBER);
        CHECK_STATUS(rg_barrier_start(set, NULL, &req), RG_ERR_NOT_MEMBER);
        CHECK(req == NULL);
        return;
    }
    CHECK_OK(rg_allgather(set, &mine, all, 1, RG_I32));
    for (int i = 0; i < n; i++)
        CHECK_EQ(all[i], ranks[i]);
    for (int root = 0; root < n; root++) {
        int32_t from = w->index;
        CHECK_OK(rg_broadcast(set, &from, 1, RG_I32, root));
        CHECK_EQ(from, ranks[root]);
    }
    int32_t sum = 0, want = 0;
    for (int i = 0; i < n; i++)
        want += ranks[i];
    CHECK_OK(rg_allreduce(set, &mine, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, want);
}

static void all(world *w, void *arg)
{
    (void)arg;
    static const int some[] = {3, 1}, back[] = {4, 3, 2, 1, 0}, one[] = {2},
                     evens[] = {0, 2, 4}, odds[] = {1, 3};
    rg_set *set[5];
    set[0] = make(w, "some", some, 2);
    set[1] = make(w, "back", back, 5);
    set[2] = make(w, "one", one, 1);
    set[3] = make(w, "evens", evens, 3);
    set[4] = make(w, "odds", odds, 2);
    for (int round = 0; round < 3; round++) {
        check_order(w, set[0], some, 2);
        check_order(w, set[1], back, 5);
        check_order(w, set[2], one, 1);
        check_order(w, set[3], evens, 3);
        check_order(w, set[4], odds, 2);
    }
    for (int i = 0; i < 5; i++)
        CHECK_EQ(rg_set_id(set[i]), i + 1);
    CHECK_EQ(rg_set_id(rg_world(w->ctx)), 0);
    CHECK_EQ(rg_set_rank(rg_world(w->ctx)), w->index);
    CHECK_EQ(rg_set_size(rg_world(w->ctx)), 5);
    CHECK_STR(rg_set_name(rg_world(w->ctx)), "world");
    CHECK_STATUS(rg_set_destroy(rg_world(w->ctx)), RG_ERR_INVALID);
    CHECK_OK(rg_set_destroy(NULL));
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    for (int i = 0; i < 5; i++)
        CHECK_OK(rg_set_destroy(set[i]));
}

int main(void)
{
    world_of(5, all, NULL);
    return 0;
}
