/* B8, B6: a group equals its single operations, small ones of one type are done
 * as one, also past others; nothing of a group runs when ranks group different
 * things or when a call of it fails, and the set stays usable. It starts at
 * its end, and so do its deadlines; a call that waits is refused, and
 * leaves nothing behind; a scale of 1 is the same as none.
 *
 * Covers: process_sets/open_group.c core/group.c */
#include <time.h>

#include "tests/lib/world.h"

#define OPS 40

static void mixed_types(world *w, void *arg)
{
    (void)arg;
    rg_set *set = rg_world(w->ctx);
    int32_t a[OPS][5], b[OPS][5];
    float f[OPS], g[OPS];
    double large[20000];
    rg_req *req[2 * OPS + 1] = {0};
    for (int i = 0; i < 20000; i++)
        large[i] = w->index + i;
    CHECK_OK(rg_group_start(w->ctx));
    for (int i = 0; i < OPS; i++) {
        for (int k = 0; k < 5; k++)
            a[i][k] = w->index * 100 + i + k;
        f[i] = (float)(w->index + i);
        CHECK_OK(rg_allreduce_start(
            set, a[i], i % 2 ? a[i] : b[i], (uint64_t)(i % 6), RG_I32,
            i % 3 ? RG_SUM : RG_MAX, NULL, &req[2 * i]));
        CHECK_OK(rg_allreduce_start(set, &f[i], &g[i], 1, RG_F32, RG_SUM, NULL,
                                    &req[2 * i + 1]));
        CHECK_STATUS(rg_wait(&req[2 * i], -1), RG_IN_PROGRESS);
    }
    CHECK_OK(rg_allreduce_start(set, large, large, 20000, RG_F64, RG_SUM, NULL,
                                &req[2 * OPS]));
    CHECK_OK(rg_group_end(w->ctx));
    CHECK_OK(rg_wait_all(req, 2 * OPS + 1, -1));
    const int n = w->n;
    for (int i = 0; i < OPS; i++) {
        const int32_t *got = i % 2 ? a[i] : b[i];
        for (int k = 0; k < i % 6 && k < 5; k++)
            CHECK_EQ(got[k], i % 3 ? n * (n - 1) / 2 * 100 + n * (i + k)
                                   : (n - 1) * 100 + i + k);
        CHECK(g[i] == (float)(n * (n - 1) / 2 + n * i));
    }
    for (int i = 0; i < 20000; i++)
        CHECK(large[i] == n * (n - 1) / 2.0 + (double)n * i);
}

static void other_groups(world *w, void *arg)
{
    (void)arg;
    rg_set *set = rg_world(w->ctx);
    int32_t v[3] = {7, 7, 7};
    rg_req *req[3] = {0};
    CHECK_OK(rg_group_start(w->ctx));
    for (int i = 0; i < 3; i++) /* the last one is larger on one rank */
        CHECK_OK(rg_allreduce_start(set, &v[i], &v[i],
                                    i == 2 && w->index == 1 ? 0 : 1, RG_I32,
                                    i == 1 ? RG_MAX : RG_SUM, NULL, &req[i]));
    CHECK_OK(rg_group_end(w->ctx));
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(rg_wait(&req[i], -1), RG_ERR_MISMATCH);
        CHECK_EQ(v[i], 7);
    }
    int32_t one = 1, sum = 0;
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, w->n);
}

/* As many elements in all, of which each would be added to another's. */
static void other_order(world *w, void *arg)
{
    (void)arg;
    rg_set *set = rg_world(w->ctx);
    int32_t v[2][2] = {{7, 7}, {7, 7}};
    rg_req *req[2] = {0};
    CHECK_OK(rg_group_start(w->ctx));
    for (int i = 0; i < 2; i++)
        CHECK_OK(rg_allreduce_start(set, v[i], v[i],
                                    i == (w->index == 1) ? 1 : 2, RG_I32,
                                    RG_SUM, NULL, &req[i]));
    CHECK_OK(rg_group_end(w->ctx));
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(rg_wait(&req[i], -1), RG_ERR_MISMATCH);
        CHECK_EQ(v[i][0], 7);
    }
    CHECK_OK(rg_barrier(set));
}

static void failed_call(world *w, void *arg)
{
    (void)arg;
    rg_set *set = rg_world(w->ctx);
    int32_t one = 1, sum = 7;
    rg_req *req = NULL, *bad = NULL;
    CHECK_STATUS(rg_group_end(w->ctx), RG_ERR_INVALID);
    CHECK_OK(rg_group_start(w->ctx));
    CHECK_STATUS(rg_group_start(w->ctx), RG_ERR_INVALID);
    CHECK_OK(
        rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
    CHECK_STATUS(
        rg_allreduce_start(set, NULL, &sum, 1, RG_I32, RG_SUM, NULL, &bad),
        RG_ERR_INVALID);
    CHECK_STATUS(rg_group_end(w->ctx), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "NULL buffer"));
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_INVALID);
    CHECK_EQ(sum, 7);
    CHECK_OK(rg_group_start(w->ctx)); /* an empty one */
    CHECK_OK(rg_group_end(w->ctx));
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, w->n);
}

/* By the thread that ends it, at once: the other part is here. */
static void begun_at_its_end(world *w, void *arg)
{
    (void)arg;
    int32_t one = 1, sum = 0;
    rg_req *req = NULL;
    if (w->index == 1)
        world_meet(w);
    CHECK_OK(rg_group_start(w->ctx));
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), &one, &sum, 1, RG_I32, RG_SUM,
                                NULL, &req));
    CHECK_OK(rg_group_end(w->ctx));
    if (w->index == 1)
        CHECK_EQ(sum, 2);
    if (w->index == 0)
        world_meet(w);
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(sum, 2);
}

static void scale_of_one(world *w, void *arg)
{
    (void)arg;
    const rg_op_params params = {
        .size = sizeof params, .prescale = 1, .postscale = 1};
    float one = 1, sum = 0;
    rg_req *req = NULL;
    CHECK_OK(rg_group_start(w->ctx));
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), &one, &sum, 1, RG_F32, RG_SUM,
                                w->index == 0 ? &params : NULL, &req));
    CHECK_OK(rg_group_end(w->ctx));
    CHECK_OK(rg_wait(&req, -1));
    CHECK(sum == (float)w->n);
}

/* The time between the calls and the group's end does not count. */
static void deadlines(world *w, void *arg)
{
    (void)arg;
    const rg_op_params params = {.size = sizeof params, .timeout_ms = 2000};
    const struct timespec longer = {.tv_sec = 2, .tv_nsec = 100000000};
    int32_t v[2] = {1, 1};
    double large[20000] = {1};
    rg_req *req[3] = {NULL};
    CHECK_OK(rg_group_start(w->ctx));
    for (int i = 0; i < 2; i++)
        CHECK_OK(rg_allreduce_start(rg_world(w->ctx), &v[i], &v[i], 1, RG_I32,
                                    RG_SUM, &params, &req[i]));
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), large, large, 20000, RG_F64,
                                RG_SUM, &params, &req[2]));
    nanosleep(&longer, NULL);
    world_meet(w);
    if (w->index == 1) /* rank 0 begins to wait before */
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    CHECK_OK(rg_group_end(w->ctx));
    CHECK_OK(rg_wait_all(req, 3, -1));
    CHECK_EQ(v[0] + v[1], 2 * w->n);
    CHECK(large[0] == w->n);
}

static void forms_that_wait(world *w, void *arg)
{
    (void)arg;
    rg_set *set = rg_world(w->ctx);
    int32_t one = 1, sum = 7, other = 7;
    rg_req *req = NULL;
    CHECK_OK(rg_group_start(w->ctx));
    CHECK_OK(
        rg_allreduce_start(set, &one, &other, 1, RG_I32, RG_SUM, NULL, &req));
    CHECK_STATUS(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "rg_allreduce_start"));
    CHECK_STATUS(rg_barrier(set), RG_ERR_INVALID);
    CHECK_STATUS(rg_group_end(w->ctx), RG_ERR_INVALID);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_INVALID);
    CHECK_OK(rg_barrier(set));
    CHECK_EQ(sum, 7);
    CHECK_EQ(other, 7);
}

int main(void)
{
    for (int n = 1; n <= 4; n++)
        world_of(n, mixed_types, NULL);
    world_of(3, other_groups, NULL);
    world_of(3, other_order, NULL);
    world_of(2, failed_call, NULL);
    world_of(2, scale_of_one, NULL);
    world_of(2, deadlines, NULL);
    world_of(2, forms_that_wait, NULL);
    world_on("00", begun_at_its_end, NULL);
    return 0;
}
