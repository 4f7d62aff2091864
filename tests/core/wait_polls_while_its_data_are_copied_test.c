/* A thread that waits for much data looks again and again, for as long as
 * copying them may take, and then sleeps, in however many waits; one that waits
 * for little, or while others want the processor, soon sleeps. Before it sleeps
 * it arms the transport of this test, which then ends the operation. The time
 * of a wait in which others had the processor counts, however few looks it
 * took.
 *
 * Covers: core/request.c */

#include "sdk/base/clock.h"
#include "sdk/core/engine_parts.h"
#include "tests/check.h"

#define MUCH_BYTES  ((uint64_t)2 << 20)
#define COPY_NS     (MUCH_BYTES / 4) /* at 4 GB/s */
#define TRIES       100 /* in which a busy machine leaves one undisturbed */
#define BUSY_NS     (RG__MS / 10)
#define YIELDS_MOST 8 /* polling to its end would take 40 */

static rg__bell bell;
static uint64_t looked_ns, armed_ns; /* first; 0: not yet */
static uint64_t busy_ns;             /* others use each yield for so long */
static int yields;

/* In place of the C library's. */
int sched_yield(void)
{
    const uint64_t begin = rg__now_ns();
    yields++;
    while (rg__now_ns() - begin < busy_ns)
        ;
    return 0;
}

static rg_status slow_open(const rg__boot *boot, rg__comm **comm_p);

static rg_status slow_start(rg__comm *comm, const rg__coll *coll)
{
    (void)comm, (void)coll;
    looked_ns = armed_ns = 0;
    return RG_OK;
}

static rg_status slow_test(rg__comm *comm)
{
    (void)comm;
    if (looked_ns == 0)
        looked_ns = rg__now_ns();
    return armed_ns == 0 ? RG_IN_PROGRESS : RG_OK;
}

static void slow_arm(rg__comm *world)
{
    (void)world;
    if (armed_ns == 0)
        armed_ns = rg__now_ns();
}

static rg__bell *slow_bell(rg__comm *world)
{
    (void)world;
    return &bell;
}

static void slow_close(rg__comm *comm)
{
    free(comm);
}

static const rg__transport slow = {.size = sizeof slow,
                                   .name = "slow",
                                   .open = slow_open,
                                   .start = slow_start,
                                   .test = slow_test,
                                   .bell = slow_bell,
                                   .arm = slow_arm,
                                   .close = slow_close};

static rg_status slow_open(const rg__boot *boot, rg__comm **comm_p)
{
    (void)boot;
    *comm_p = calloc(1, sizeof **comm_p);
    CHECK(*comm_p != NULL);
    (*comm_p)->transport = &slow;
    return RG_OK;
}

/* For how long does a thread look before it sleeps? */
static uint64_t polled_ns(rg__channel *world, uint64_t bytes)
{
    const rg__coll coll = {
        .kind = RG__BROADCAST, .type = RG_U8, .count = bytes};
    rg_req *req = NULL;
    CHECK_OK(rg__channel_start(world, &coll, &req));
    CHECK_OK(rg_wait(&req, -1));
    CHECK(armed_ns >= looked_ns);
    return armed_ns - looked_ns;
}

/* Waits that are shorter than the time of polling come to sleep, too. */
static void check_short_waits(rg__channel *world)
{
    const rg__coll coll = {
        .kind = RG__BROADCAST, .type = RG_U8, .count = 32 * MUCH_BYTES};
    rg_req *req = NULL;
    armed_ns = 0;
    CHECK_OK(rg__channel_start(world, &coll, &req));
    for (int i = 0; i < TRIES && armed_ns == 0; i++)
        rg_wait(&req, 1);
    CHECK(armed_ns != 0);
    if (req != NULL)
        CHECK_OK(rg_wait(&req, -1));
}

/* A yield that takes long ends the polling. */
static void check_crowd(rg__engine *e, rg__channel *world)
{
    rg__wait_policy soon = rg__wait_usual;
    soon.pauses = 0, soon.yields = 1;
    atomic_store(&e->wait, &soon);
    busy_ns = BUSY_NS;
    for (int i = 0; i < TRIES / 10; i++) {
        const uint64_t before_ns = atomic_load(&e->page->waited_ns);
        yields = 0;
        polled_ns(world, 32 * MUCH_BYTES);
        CHECK(yields <= YIELDS_MOST);
        CHECK(i == 0 || atomic_load(&e->page->waited_ns) - before_ns >=
                            (uint64_t)yields * BUSY_NS);
    }
    atomic_store(&e->wait, &rg__wait_usual);
}

int main(void)
{
    static rg__page page;
    const rg__boot boot = {.size = 1, .generation = 3};
    rg__engine *engine;
    rg__channel *world;
    CHECK_OK(rg__engine_create(&page, &engine));
    CHECK_OK(rg__channel_create(engine, &world));
    CHECK_OK(rg__engine_enter(engine, world, &slow, &boot));
    rg__engine_admit(engine);
    uint64_t longest = 0, shortest = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        const uint64_t much = polled_ns(world, MUCH_BYTES);
        longest = much > longest ? much : longest;
        const uint64_t little = polled_ns(world, 8);
        shortest = little < shortest ? little : shortest;
    }
    CHECK(longest >= COPY_NS && shortest < COPY_NS);
    check_short_waits(world);
    check_crowd(engine, world);
    rg__channel_destroy(world);
    rg__engine_destroy(engine);
    return 0;
}
