/* The memory that the members of a communicator share, and waiting on it. */
#include "tests/device/support/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MS 20 /* so often a waiter looks without being rung */

fake_seat *fake_own_seat(rg__nccl_comm c)
{
    return &c->segment->seat[c->rank];
}

fake_pipe *fake_pipe_of(rg__nccl_comm c, int from, int to)
{
    return &c->segment->pipe[from * c->n + to];
}

static size_t bytes_of(int n)
{
    return sizeof(fake_segment) + (size_t)(n * n) * sizeof(fake_pipe);
}

/* ---------------------------------------------------------------------- seats
 */

/* The lock goes with the process, however it ends. */
static bool hold_seat(rg__nccl_comm c)
{
    struct flock seat = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = c->rank,
                         .l_len = 1};
    return fcntl(c->fd, F_OFD_SETLK, &seat) == 0;
}

static bool is_held(rg__nccl_comm c, int rank)
{
    struct flock seat = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
    return fcntl(c->fd, F_OFD_GETLK, &seat) != 0 || seat.l_type != F_UNLCK;
}

bool fake_peer_is_gone(rg__nccl_comm c)
{
    for (int r = 0; r < c->n; r++)
        if (r != c->rank && !is_held(c, r))
            return true;
    return false;
}

/* A file that a member has removed already is made again: a rank after an
 * abort waits forever, and is not told. */
int fake_sit_down(rg__nccl_comm c)
{
    const size_t bytes = bytes_of(c->n);
    c->fd = open(c->path, O_RDWR | O_CLOEXEC | O_CREAT, 0600);
    if (c->fd < 0) {
        fake_tell("%s: %s", c->path, strerror(errno));
        return RG__NCCL_SystemError;
    }
    fake_count(0, 1);
    if (ftruncate(c->fd, (off_t)bytes) != 0 || !hold_seat(c)) {
        fake_tell("%s: rank %d is taken: %s", c->path, c->rank,
                  strerror(errno));
        return RG__NCCL_InvalidUsage;
    }
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
    if (at == MAP_FAILED)
        fake_violation("no memory can be mapped for %d ranks", c->n);
    c->segment = at;
    return RG__NCCL_Success;
}

void fake_stand_up(rg__nccl_comm c)
{
    if (c->segment)
        munmap(c->segment, bytes_of(c->n));
    c->segment = NULL;
    if (c->fd < 0)
        return;
    unlink(c->path);
    close(c->fd);
    fake_count(0, -1);
    c->fd = -1;
}

/* -------------------------------------------------------------------- waiting
 */

void fake_ring(rg__nccl_comm c)
{
    if (!c->segment)
        return;
    atomic_fetch_add(&c->segment->bell, 1);
    syscall(SYS_futex, &c->segment->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void sleep_until_rung(rg__nccl_comm c, uint32_t seen)
{
    const struct timespec t = {.tv_nsec = LOOK_MS * 1000000};
    if (c->segment)
        syscall(SYS_futex, &c->segment->bell, FUTEX_WAIT, seen, &t, NULL, 0);
    else
        fake_nap_ms(1);
}

static bool is_over(rg__nccl_comm c)
{
    return atomic_load(&c->is_aborted) || fake_sticky() ||
           (c->parent && atomic_load(&c->parent->is_aborted));
}

bool fake_await(rg__nccl_comm c, fake_claim claim, void *arg)
{
    for (;;) {
        const uint32_t seen = c->segment ? atomic_load(&c->segment->bell) : 0;
        if (is_over(c))
            return false;
        if (claim(c, arg))
            return true;
        sleep_until_rung(c, seen);
    }
}

static bool never(rg__nccl_comm c, void *arg)
{
    (void)c;
    (void)arg;
    return false;
}

void fake_await_abort(rg__nccl_comm c)
{
    fake_await(c, never, NULL);
}

/* Also through an abort: kernels leave in turn. */
void fake_await_turn(rg__nccl_comm c, uint64_t turn)
{
    for (;;) {
        const uint32_t seen = atomic_load(&c->segment->bell);
        if (atomic_load(&c->turn) == turn)
            return;
        sleep_until_rung(c, seen);
    }
}

static bool is_time(rg__nccl_comm c, void *until_ms)
{
    (void)c;
    return fake_now_ms() >= *(const double *)until_ms;
}

bool fake_await_ms(rg__nccl_comm c, int ms)
{
    double until_ms = fake_now_ms() + ms;
    return fake_await(c, is_time, &until_ms);
}
