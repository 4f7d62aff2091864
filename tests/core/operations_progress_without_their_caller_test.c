/* No thread waits: the Regroup threads finish what was started,
 * whichever algorithm carries it, also if they were asleep.
 *
 * Covers: progress.c */
#include <sched.h>
#include <time.h>

#include "sdk/core/engine_parts.h"
#include "tests/lib/world.h"

static void await_by_looking(const rg_req *req)
{
    while (!rg__req_is_done(req)) /* a load; makes no progress */
        sched_yield();
}

static void start_and_look(world *w, char *data, uint64_t count)
{
    rg_req *req = NULL;
    memset(data, w->index + 1, count);
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), data, data, count, RG_U8,
                                RG_SUM, NULL, &req));
    await_by_looking(req);
    CHECK_OK(rg_wait(&req, 0));
    CHECK_EQ(data[0], 6);
    CHECK_EQ(data[count - 1], 6);
}

/* A thread waited, so the Regroup thread went to sleep; then it gave up. */
static void after_a_wait_that_gave_up(world *w)
{
    int32_t one = 1, sum = 0;
    rg_req *req = NULL;
    if (w->index == 2)
        world_meet(w);
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), &one, &sum, 1, RG_I32, RG_SUM,
                                NULL, &req));
    if (w->index != 2) {
        CHECK_STATUS(rg_wait(&req, 40), RG_IN_PROGRESS);
        world_meet(w);
    }
    await_by_looking(req);
    CHECK_OK(rg_wait(&req, 0));
    CHECK_EQ(sum, 3);
}

static void all(world *w, void *arg)
{
    (void)arg;
    static const uint64_t counts[] = {1, 1000, 8193, 3 << 20};
    char *own = malloc(3 << 20);
    CHECK(own != NULL);
    for (int i = 0; i < 4; i++) {
        start_and_look(w, own, counts[i]);
        start_and_look(w, w->alloc, counts[i]);
        /* long enough for the Regroup thread to stop polling */
        const struct timespec pause = {.tv_nsec = 30000000};
        nanosleep(&pause, NULL);
    }
    free(own);
    after_a_wait_that_gave_up(w);
}

int main(void)
{
    world_of(3, all, NULL);
    return 0;
}
