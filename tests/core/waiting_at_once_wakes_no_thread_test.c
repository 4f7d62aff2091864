/* A program that waits for each operation advances it itself: its Regroup
 * thread is not woken, however long the operation takes.
 *
 * Covers: sleep.c futex.c */
#include <sys/resource.h>
#include <time.h>

#include "tests/lib/world.h"

#define COUNT  ((uint64_t)32768) /* floats: worth waking a polling thread */
#define ROUNDS 2000

/* Sleeps of the other threads of this process. */
static long others_sleeps(void)
{
    struct rusage all, mine;
    CHECK_EQ(getrusage(RUSAGE_SELF, &all), 0);
    CHECK_EQ(getrusage(RUSAGE_THREAD, &mine), 0);
    return all.ru_nvcsw - mine.ru_nvcsw;
}

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void blocking(world *w, void *arg)
{
    (void)arg;
    static float data[COUNT], sum[COUNT];
    const long sleeps = others_sleeps(), begin = now_ms();
    for (int i = 0; i < ROUNDS; i++)
        CHECK_OK(
            rg_allreduce(rg_world(w->ctx), data, sum, COUNT, RG_F32, RG_SUM));
    /* while it polls, it looks once in a millisecond by itself */
    const long woken = others_sleeps() - sleeps - (now_ms() - begin);
    if (woken > ROUNDS / 2)
        CHECK_FAIL("woken %ld times in %d operations", woken, ROUNDS);
}

int main(void)
{
    world_of(2, blocking, NULL);
    return 0;
}
