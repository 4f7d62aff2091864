/* A turn of the loop that takes too long is told of, with the function that
 * took longest of it; quick ones, and long waits for an event, are not. */
#include "sdk/base/loop.h"

#include <time.h>

#include "sdk/base/clock.h"
#include "tests/check.h"

#define LIMIT_NS (40 * RG__MS)

static rg__loop *loop;
static rg__timer *next;
static int told;
static rg__turn last;

static void on_slow(void *arg, const rg__turn *turn)
{
    CHECK(arg == &told);
    told++;
    last = *turn;
}

static void end(void *arg)
{
    (void)arg;
    rg__loop_stop(loop);
}

static void be_slow(void *arg)
{
    const struct timespec t = {.tv_nsec = (long)LIMIT_NS * 2};
    (void)arg;
    CHECK_EQ(told, 0);
    nanosleep(&t, NULL);
    rg__timer_set(next, 0);
}

static void be_quick(void *arg)
{
    rg__timer *slow = arg;
    rg__timer_set(slow, LIMIT_NS * 2); /* nothing happens meanwhile */
}

int main(void)
{
    CHECK_OK(rg__loop_create(&loop));
    rg__loop_mind_turns(loop, LIMIT_NS, on_slow, &told);
    rg__timer *slow = rg__timer_create(loop, be_slow, NULL);
    rg__timer *quick = rg__timer_create(loop, be_quick, slow);
    next = rg__timer_create(loop, end, NULL);
    CHECK(slow != NULL && quick != NULL && next != NULL);
    rg__timer_set(quick, 0);
    rg__loop_run(loop);
    CHECK_EQ(told, 1);
    CHECK(last.slowest == (uintptr_t)be_slow);
    CHECK(last.ns >= LIMIT_NS * 2 && last.slowest_ns >= LIMIT_NS * 2);
    rg__timer_destroy(slow);
    rg__timer_destroy(quick);
    rg__timer_destroy(next);
    rg__loop_destroy(loop);
    return 0;
}
