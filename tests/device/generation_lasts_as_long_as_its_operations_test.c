/* The next generation on the device does not begin before all that was launched
 * in this one has ended, however long that takes. A deadline passes also for an
 * operation whose caller is still inside of the call that launches it; and such
 * a caller delays no operation of another set.
 *
 * Covers: lanes.c operations.c reclaim.c */
#include "sdk/transport/nccl/device.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/device/support/ranks.h"

#define LOOKS 50

static rg__device *d;
static void *from, *to;
static atomic_bool is_open; /* what a kernel of the program waits for */
static char said[512];

static void wait_at_gate(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_open))
        usleep(1000);
}

static void on_broken(void *arg, uint64_t generation, const char *why)
{
    (void)arg;
    snprintf(said, sizeof said, "%s", why);
    rg__device_close(d, generation, RG_ERR_PEER_LOST, why);
    atomic_store(&is_open, true);
}

static void begin(ranks *r)
{
    const rg__device_config config = {.params = {.size = sizeof config.params},
                                      .cuda_lib = "libfakecuda.so",
                                      .nccl_lib = "libfakenccl.so",
                                      .broken = on_broken};
    const rg__lane_config lane = {
        .set = 1, .generation = 1, .name = "one", .n = 1};
    from = ranks_put(NULL, 8);
    to = ranks_put(NULL, 8);
    CHECK_OK(rg__device_create(&config, &d));
    CHECK_OK(rg__device_enter(d, 1));
    CHECK_OK(rg__lane_open(d, &lane));
    CHECK_EQ(fake_launch(r->stream, wait_at_gate, NULL), 0);
}

static rg_status copy(ranks *r, int timeout_ms)
{
    const rg__launch launch = {.coll = {.kind = RG__ALLREDUCE,
                                        .type = RG_U8,
                                        .count = 8,
                                        .send = from,
                                        .recv = to},
                               .stream = r->stream,
                               .timeout_ms = timeout_ms};
    rg__ticket ticket;
    return rg__lane_launch(d, 1, 1, &launch, 1, &ticket);
}

static void the_next_one_waits(ranks *r)
{
    begin(r);
    CHECK_OK(copy(r, 0));
    rg__device_close(d, 1, RG_ERR_PEER_LOST, "over");
    for (int i = 0; i < LOOKS; i++) {
        rg__device_ring(d);
        usleep(1000);
        CHECK_EQ(atomic_load(&d->quiet), 0);
    }
    atomic_store(&is_open, true);
    CHECK_OK(rg__device_enter(d, 2));
    rg__device_destroy(d);
}

static void a_deadline_passes_inside(ranks *r)
{
    alarm(30);
    begin(r);
    copy(r, 100);
    CHECK_STATUS(rg__device_check(d, 1), RG_ERR_PEER_LOST);
    CHECK(strstr(said, "a deadline has passed: allreduce of 8 elements on the "
                       "device, set one") != NULL);
    rg__device_destroy(d);
}

static void *copy_at_last(void *arg)
{
    CHECK_OK(copy(arg, 0));
    return NULL;
}

static bool is_inside(void)
{
    pthread_mutex_lock(&d->table);
    const rg__lane *lane = rg__lane_find(d, 1, 1);
    const bool is = atomic_load(&lane->inside) != 0;
    pthread_mutex_unlock(&d->table);
    return is;
}

static void two_sets_run_side_by_side(ranks *r)
{
    const rg__lane_config lane = {
        .set = 2, .generation = 1, .name = "two", .n = 1};
    const rg__launch launch = {.coll = {.kind = RG__BARRIER},
                               .stream = RG_STREAM_NONE};
    pthread_t thread;
    rg__ticket ticket;
    alarm(30);
    begin(r);
    CHECK_OK(rg__lane_open(d, &lane));
    CHECK_EQ(pthread_create(&thread, NULL, copy_at_last, r), 0);
    while (!is_inside())
        usleep(1000);
    CHECK_OK(rg__lane_launch(d, 2, 1, &launch, 1, &ticket));
    CHECK_OK(rg__ticket_wait(d, &ticket, UINT64_MAX));
    atomic_store(&is_open, true);
    pthread_join(thread, NULL);
    rg__device_destroy(d);
}

int main(void)
{
    ranks_run(1, NULL, the_next_one_waits);
    ranks_run(1, "queue n=1", a_deadline_passes_inside);
    ranks_run(1, "queue n=1", two_sets_run_side_by_side);
    return 0;
}
