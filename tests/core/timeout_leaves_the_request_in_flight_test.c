/* rg_wait, rg_test and rg_wait_all with timeouts, with errors, and with nothing
 * to wait for.
 *
 * Covers: watchdog.c */
#include "sdk/base/clock.h"
#include "tests/lib/world.h"

static void one_request(world *w)
{
    int32_t one = 1, sum = 0;
    rg_req *req = NULL;
    rg_set *set = rg_world(w->ctx);
    if (w->index == 0) {
        CHECK_OK(
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
        CHECK_STATUS(rg_test(&req), RG_IN_PROGRESS);
        CHECK_STATUS(rg_wait(&req, 0), RG_IN_PROGRESS);
        const uint64_t before = rg__now_ns();
        CHECK_STATUS(rg_wait(&req, 30), RG_IN_PROGRESS);
        CHECK(rg__now_ns() - before >= 30 * RG__MS);
        CHECK(req != NULL);
    }
    world_meet(w);
    if (w->index != 0)
        CHECK_OK(
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    CHECK(req == NULL);
    CHECK_EQ(sum, w->n);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_INVALID);
    CHECK_STATUS(rg_test(&req), RG_ERR_INVALID);
    CHECK_STATUS(rg_test(NULL), RG_ERR_INVALID);
}

/* The second of three is a mismatch; nothing is given back before all end. */
static void many_requests(world *w)
{
    int32_t one = 1, sum[3] = {0, 0, 0};
    rg_req *req[5] = {NULL, NULL, NULL, NULL, NULL};
    rg_set *set = rg_world(w->ctx);
    const uint64_t odd = w->index == 1 ? 0 : 1;
    CHECK_OK(rg_allreduce_start(set, &one, &sum[0], 1, RG_I32, RG_SUM, NULL,
                                &req[0]));
    CHECK_OK(rg_allreduce_start(set, &one, &sum[1], odd, RG_I32, RG_SUM, NULL,
                                &req[2]));
    CHECK_STATUS(rg_wait_all(req, 5, -1), RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "count 1 on") != NULL);
    for (int i = 0; i < 5; i++)
        CHECK(req[i] == NULL);
    world_meet(w);

    if (w->index == 0) {
        CHECK_OK(rg_allreduce_start(set, &one, &sum[2], 1, RG_I32, RG_SUM, NULL,
                                    &req[1]));
        CHECK_STATUS(rg_wait_all(req, 5, 10), RG_IN_PROGRESS);
        CHECK(req[1] != NULL);
    }
    world_meet(w);
    if (w->index != 0)
        CHECK_OK(rg_allreduce_start(set, &one, &sum[2], 1, RG_I32, RG_SUM, NULL,
                                    &req[1]));
    CHECK_OK(rg_wait_all(req, 5, -1));
    CHECK_EQ(sum[0], w->n);
    CHECK_EQ(sum[2], w->n);
    CHECK_OK(rg_wait_all(req, 5, -1));
    CHECK_OK(rg_wait_all(NULL, 0, -1));
    CHECK_STATUS(rg_wait_all(NULL, 1, -1), RG_ERR_INVALID);
    CHECK_STATUS(rg_wait_all(req, -1, -1), RG_ERR_INVALID);
}

static void all(world *w, void *arg)
{
    (void)arg;
    for (int i = 0; i < 5; i++)
        one_request(w);
    many_requests(w);
}

int main(void)
{
    world_of(3, all, NULL);
    return 0;
}
