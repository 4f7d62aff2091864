/* After a burst of operations the Regroup thread goes to sleep: a process whose
 * user threads sleep uses no processor time. The same while an operation waits
 * for a late peer. */
#include <sys/resource.h>
#include <time.h>

#include "tests/lib/world.h"

#define IDLE_MS 800

static long cpu_us(void)
{
    struct rusage u;
    CHECK_EQ(getrusage(RUSAGE_SELF, &u), 0);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

static long cpu_of_a_pause(void)
{
    const struct timespec settle = {.tv_nsec = 50000000};
    const struct timespec pause = {.tv_nsec = IDLE_MS * 1000000l};
    nanosleep(&settle, NULL);
    const long before = cpu_us();
    nanosleep(&pause, NULL);
    return cpu_us() - before;
}

static void idle(world *w, void *arg)
{
    (void)arg;
    int32_t one = 1, sum = 0;
    rg_set *set = rg_world(w->ctx);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    const long at_rest = cpu_of_a_pause();
    if (at_rest > IDLE_MS * 1000 / 100) /* 1 % */
        CHECK_FAIL("an idle process used %ld us in %d ms", at_rest, IDLE_MS);

    rg_req *req = NULL;
    if (w->index == 0)
        CHECK_OK(
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
    const long for_peer = cpu_of_a_pause();
    if (for_peer > IDLE_MS * 1000 / 20) /* 5 %: it looks every 5 ms */
        CHECK_FAIL("a process that waits for a peer used %ld us in %d ms",
                   for_peer, IDLE_MS);
    if (w->index == 0)
        world_meet(w);
    else {
        world_meet(w);
        CHECK_OK(
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
    }
    CHECK_OK(rg_wait(&req, -1));
}

int main(void)
{
    world_of(2, idle, NULL);
    return 0;
}
