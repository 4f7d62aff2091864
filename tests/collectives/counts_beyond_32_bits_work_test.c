/* B16: more than 2^32 bytes in one operation. The buffers repeat a few
 * megabytes of memory over and over, whose length does not divide 2^32: so the
 * test needs little memory, and an offset that was cut to 32 bits is noticed.
 *
 * Covers: collectives.c staged.c zero_copy.c */
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/world.h"

#define PERIOD ((uint64_t)(15 * 1024 + 4) << 10)
#define COUNT  ((UINT64_C(1) << 32) + 4097)

static uint8_t *repeat(void)
{
    const uint64_t times = (COUNT + PERIOD - 1) / PERIOD;
    const int fd = memfd_create("large", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)PERIOD) == 0);
    uint8_t *at = mmap(NULL, times * PERIOD, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    for (uint64_t i = 0; i < times; i++)
        CHECK(mmap(at + i * PERIOD, PERIOD, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
    close(fd);
    return at;
}

static uint8_t pattern(uint64_t i)
{
    return (uint8_t)((i >> 12) * 7 + i % 5);
}

static void check(const uint8_t *at, int times)
{
    for (uint64_t i = 0; i < PERIOD; i += 509)
        CHECK_EQ(at[i], (uint8_t)(pattern(i) * times));
}

static void large(world *w, void *arg)
{
    (void)arg;
    uint8_t *send = repeat(), *recv = repeat();
    rg_set *set = rg_world(w->ctx);
    for (uint64_t i = 0; i < PERIOD; i++)
        send[i] = pattern(i);
    CHECK_OK(rg_allreduce(set, send, recv, COUNT, RG_U8, RG_SUM));
    check(recv, w->n);
    memset(recv, 0, PERIOD);
    const uint64_t from_0[2] = {0, w->n > 1 ? COUNT : 0}, none[2] = {0, 0};
    const uint64_t to_1[2] = {w->n > 1 ? COUNT : 0, 0};
    rg_req *req = NULL;
    CHECK_OK(rg_alltoallv_start(set, send, w->index == 0 ? from_0 : none, NULL,
                                recv, w->index == 1 ? to_1 : none, NULL, RG_U8,
                                NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    if (w->index == 1)
        check(recv, 1);
}

int main(void)
{
    const world_params params = {.n = 2, .timeout_s = 550};
    world_of(1, large, NULL);
    world_run(&params, large, NULL);
    return 0;
}
