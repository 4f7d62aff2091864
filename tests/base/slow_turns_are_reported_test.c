/* A turn of the loop that computes for too long, or sleeps for very long, is
 * reported, with the function that took the most time; quick turns, short
 * sleeps and long waits for an event are not.
 *
 * Covers: loop.c */
#include "sdk/base/loop.h"

#include <time.h>

#include "sdk/base/clock.h"
#include "tests/check.h"

#define LIMIT_NS (40 * RG__MS)

static rg__loop *loop;
static rg__timer *next[4];
static int told;
static rg__turn last;

static void on_slow(void *arg, const rg__turn *turn)
{
    CHECK(arg == &told);
    told++;
    last = *turn;
}

static void sleep_for(uint64_t ns)
{
    const struct timespec t = {(time_t)(ns / 1000000000),
                               (long)(ns % 1000000000)};
    nanosleep(&t, NULL);
}

static uint64_t computed_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void be_quick(void *arg)
{
    (void)arg;
    rg__timer_set(next[1], LIMIT_NS * 2); /* nothing happens meanwhile */
}

static void sleep_shortly(void *arg)
{
    (void)arg;
    sleep_for(LIMIT_NS * 2);
    rg__timer_set(next[2], 0);
}

static void compute(void *arg)
{
    const uint64_t begin = computed_ns();
    (void)arg;
    CHECK_EQ(told, 0);
    while (computed_ns() - begin < LIMIT_NS * 2)
        ;
    rg__timer_set(next[3], 0);
}

static void sleep_long(void *arg)
{
    (void)arg;
    CHECK_EQ(told, 1);
    CHECK(last.slowest == (uintptr_t)compute);
    CHECK(last.ns >= LIMIT_NS * 2 && last.slowest_ns >= LIMIT_NS * 2);
    sleep_for(LIMIT_NS * (RG__TURN_ASLEEP + 1));
    rg__loop_stop(loop);
}

int main(void)
{
    static const rg__timer_fn turns[4] = {be_quick, sleep_shortly, compute,
                                          sleep_long};
    CHECK_OK(rg__loop_create(&loop));
    rg__loop_mind_turns(loop, LIMIT_NS, on_slow, &told);
    for (int i = 0; i < 4; i++) {
        next[i] = rg__timer_create(loop, turns[i], NULL);
        CHECK(next[i] != NULL);
    }
    rg__timer_set(next[0], 0);
    rg__loop_run(loop);
    CHECK_EQ(told, 2);
    CHECK(last.slowest == (uintptr_t)sleep_long);
    for (int i = 0; i < 4; i++)
        rg__timer_destroy(next[i]);
    rg__loop_destroy(loop);
    return 0;
}
