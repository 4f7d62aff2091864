/* An operation waits for a member that is held back until other sets have
 * completed many; these have ranks in common with it or none, are started by
 * the same thread or by others, and in other orders on other ranks. With one
 * queue for several sets, in a process or over the world, the held member would
 * never be released.
 *
 * Covers: engine.c */
#include "tests/lib/world.h"

#define ROUNDS 10
#define TIMES  20
#define COUNT  20000 /* elements: too many for a line */

static rg_set *make(world *w, const char *name, const int *ranks, int n)
{
    const rg_set_params params = {sizeof params, name};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, n, &params, &set));
    return set;
}

static bool is_member(const rg_set *set)
{
    return rg_set_rank(set) >= 0;
}

static rg_req *start(rg_set *set, const int32_t *one, int32_t *sum)
{
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(set, one, sum, 1, RG_I32, RG_SUM, NULL, &req));
    return req;
}

static void sum_one(rg_set *set)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, rg_set_size(set));
}

static void sum_many(rg_set *set)
{
    static int32_t data[COUNT];
    for (int i = 0; i < COUNT; i++)
        data[i] = i;
    CHECK_OK(rg_allreduce(set, data, data, COUNT, RG_I32, RG_SUM));
    CHECK_EQ(data[COUNT - 1], rg_set_size(set) * (COUNT - 1));
}

static void go_on(rg_set *set)
{
    for (int i = 0; i < TIMES && is_member(set); i++) {
        sum_one(set);
        if (i % 8 == 0)
            sum_many(set);
    }
}

/* The last rank comes to `late` once all others have done with `set`. */
static void hold(world *w, rg_set *late, rg_set *set)
{
    const bool is_held = w->index == w->n - 1;
    int32_t one = 1, sum = 0;
    rg_req *req = NULL;
    if (is_member(late) && !is_held)
        req = start(late, &one, &sum);
    go_on(set);
    if (req != NULL)
        CHECK_STATUS(rg_test(&req), RG_IN_PROGRESS);
    world_meet(w);
    if (is_held)
        req = start(late, &one, &sum);
    if (req == NULL)
        return;
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(sum, rg_set_size(late));
}

static void one_thread(world *w, void *arg)
{
    (void)arg;
    rg_set *all = make(w, "all", (const int[]){0, 1, 2, 3}, 4);
    rg_set *back = make(w, "back", (const int[]){3, 2, 1, 0}, 4);
    rg_set *most = make(w, "most", (const int[]){0, 1, 2}, 3);
    rg_set *low = make(w, "low", (const int[]){0, 1}, 2);
    rg_set *high = make(w, "high", (const int[]){2, 3}, 2);
    for (int i = 0; i < ROUNDS; i++) {
        hold(w, all, most); /* ranks in common, */
        hold(w, all, back); /* the held one, too, */
        hold(w, rg_world(w->ctx), low);
        hold(w, high, low); /* none */
    }
}

/* ------------------------------------------------------------- two threads */

static void *block(void *arg)
{
    sum_one(arg);
    return NULL;
}

/* A thread sleeps in `late` while another goes on with `set`. */
static void hold_thread(world *w, rg_set *late, rg_set *set)
{
    const bool is_held = w->index == w->n - 1;
    pthread_t thread;
    if (is_member(late) && !is_held)
        CHECK_EQ(pthread_create(&thread, NULL, block, late), 0);
    go_on(set);
    world_meet(w);
    if (is_held)
        sum_one(late);
    else if (is_member(late))
        pthread_join(thread, NULL);
}

static void two_threads(world *w, void *arg)
{
    (void)arg;
    rg_set *most = make(w, "most", (const int[]){0, 1, 2}, 3);
    rg_set *low = make(w, "low", (const int[]){0, 1}, 2);
    rg_set *high = make(w, "high", (const int[]){2, 3}, 2);
    for (int i = 0; i < ROUNDS; i++) {
        hold_thread(w, rg_world(w->ctx), most);
        hold_thread(w, high, low);
    }
}

/* ------------------------------------------------------------------ groups */

/* A group over two sets: what is on the late one waits, the rest does not. */
static void groups(world *w, void *arg)
{
    (void)arg;
    const bool is_held = w->index == w->n - 1;
    rg_set *all = make(w, "all", (const int[]){0, 1, 2, 3}, 4);
    rg_set *most = make(w, "most", (const int[]){2, 1, 0}, 3);
    for (int i = 0; i < ROUNDS; i++) {
        int32_t one = 1, sum[3] = {0};
        rg_req *late = NULL, *free[2] = {NULL, NULL};
        CHECK_OK(rg_group_start(w->ctx));
        if (!is_held) {
            late = start(all, &one, &sum[0]);
            free[0] = start(most, &one, &sum[1]);
            free[1] = start(most, &one, &sum[2]);
        }
        CHECK_OK(rg_group_end(w->ctx));
        CHECK_OK(rg_wait_all(free, 2, -1));
        CHECK(is_held || (sum[1] == 3 && sum[2] == 3));
        go_on(most);
        if (!is_held)
            CHECK_STATUS(rg_test(&late), RG_IN_PROGRESS);
        world_meet(w);
        CHECK_OK(rg_group_start(w->ctx));
        if (is_held)
            late = start(all, &one, &sum[0]);
        CHECK_OK(rg_group_end(w->ctx));
        CHECK_OK(rg_wait(&late, -1));
        CHECK_EQ(sum[0], 4);
    }
}

/* ------------------------------------------------------------------- orders */

/* Each rank begins with another of the sets, and waits for them in that order;
 * the held one comes to the first two when the third is over elsewhere. */
static void orders(world *w, void *arg)
{
    (void)arg;
    const bool is_held = w->index == w->n - 1;
    rg_set *set[3] = {make(w, "all", (const int[]){0, 1, 2, 3}, 4),
                      make(w, "back", (const int[]){3, 2, 1, 0}, 4),
                      make(w, "most", (const int[]){0, 1, 2}, 3)};
    for (int i = 0; i < ROUNDS; i++) {
        int32_t one = 1, sum[3] = {0};
        rg_req *req[3] = {NULL, NULL, NULL};
        for (int k = 0; k < 3 && !is_held; k++) {
            const int s = (k + i + w->index) % 3;
            req[s] = start(set[s], &one, &sum[s]);
        }
        CHECK_OK(rg_wait_all(&req[2], 1, -1));
        CHECK(is_held || sum[2] == 3);
        world_meet(w);
        for (int k = 0; k < 2 && is_held; k++) {
            const int s = (k + i) % 2;
            req[s] = start(set[s], &one, &sum[s]);
        }
        for (int k = 0; k < 2; k++)
            CHECK_OK(rg_wait(&req[(k + w->index) % 2], -1));
        CHECK(sum[0] == 4 && sum[1] == 4);
    }
}

int main(void)
{
    world_of(4, one_thread, NULL);
    world_of(4, two_threads, NULL);
    world_of(4, groups, NULL);
    world_of(4, orders, NULL);
    return 0;
}
