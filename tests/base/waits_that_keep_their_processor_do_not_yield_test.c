/* A policy says how often a wait pauses and yields before it sleeps; one that
 * keeps its processor looks as often and never yields, however crowded the
 * processor is.
 *
 * Covers: futex.c */
#include <sched.h>
#include <time.h>

#include "sdk/base/futex.h"
#include "tests/check.h"

static int yields;
static long nap_ns;

/* In place of the C library's: a long one means that others had their turn. */
int sched_yield(void)
{
    const struct timespec nap = {.tv_nsec = nap_ns};
    yields++;
    return nanosleep(&nap, NULL);
}

static uint32_t looks(const rg__wait_policy *policy)
{
    uint32_t round = 0;
    while (rg__spin(policy, round))
        round++;
    rg__rest(policy);
    return round;
}

int main(void)
{
    rg__wait_policy policy = {.pauses = 30, .yields = 7};
    rg__wait_policy keeps = policy;
    keeps.keeps_processor = true;
    CHECK_EQ(looks(&keeps), 37);
    CHECK_EQ(yields, 0);
    nap_ns = 100000;
    CHECK(looks(&policy) >= 37);
    CHECK(yields > 0);
    yields = 0;
    CHECK_EQ(looks(&policy), 30 + 3 * 7); /* it is crowded now */
    CHECK(yields > 7 + 1);
    yields = 0;
    CHECK_EQ(looks(&keeps), 37);
    CHECK_EQ(yields, 0);
    return 0;
}
