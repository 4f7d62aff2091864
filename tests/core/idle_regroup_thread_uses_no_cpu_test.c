/* After a burst of operations the Regroup thread goes to sleep: a process whose
 * user threads sleep uses no processor time. The same while an operation waits
 * for a late peer.
 *
 * Covers: progress.c sleep.c */
#include <sys/resource.h>
#include <time.h>

#include "tests/lib/world.h"

#define IDLE_MS 800
#define PAUSES  10 /* a busy machine may let it settle in a later one */

#ifdef __SANITIZE_THREAD__
#define IDLE_SLEEPS 60 /* its runtime has a thread of its own */
#else
#define IDLE_SLEEPS 10
#endif

typedef struct use {
    long cpu_us, sleeps;
} use;

static use used(void)
{
    struct rusage u;
    CHECK_EQ(getrusage(RUSAGE_SELF, &u), 0);
    return (use){(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
                     u.ru_utime.tv_usec + u.ru_stime.tv_usec,
                 u.ru_nvcsw};
}

static use use_of_a_pause(void)
{
    const struct timespec settle = {.tv_nsec = 50000000};
    const struct timespec pause = {.tv_nsec = IDLE_MS * 1000000l};
    nanosleep(&settle, NULL);
    const use before = used();
    nanosleep(&pause, NULL);
    const use after = used();
    return (use){after.cpu_us - before.cpu_us, after.sleeps - before.sleeps};
}

/* At most this many wake-ups, and this share of a processor. */
static void check_use(const char *who, long sleeps, long percent)
{
    use u = {0};
    for (int i = 0; i < PAUSES; i++) {
        u = use_of_a_pause();
        if (u.sleeps <= sleeps && u.cpu_us <= IDLE_MS * 10 * percent)
            return;
    }
    CHECK_FAIL("%s: %ld us and %ld wake-ups in %d ms", who, u.cpu_us, u.sleeps,
               IDLE_MS);
}

static void idle(world *w, void *arg)
{
    (void)arg;
    int32_t one = 1, sum = 0;
    rg_set *set = rg_world(w->ctx);
    for (int i = 0; i < 1000; i++)
        CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    check_use("idle", IDLE_SLEEPS, 1);

    rg_req *req = NULL;
    if (w->index == 0)
        CHECK_OK(
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
    /* it looks every 5 ms */
    check_use("waiting for a peer", 2 * IDLE_MS / 5, 5);
    world_meet(w);
    if (w->index != 0)
        CHECK_OK(
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    CHECK_EQ(sum, 2);
}

int main(void)
{
    world_of(2, idle, NULL);
    return 0;
}
