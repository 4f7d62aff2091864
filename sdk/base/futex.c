/* Futex waits on several words at once where the kernel has futex_waitv
 * (Linux 5.16), otherwise in short slices on the first word. */
#include "sdk/base/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define SLICE_NS     (2 * RG__MS) /* without futex_waitv */
#define CROWD_FACTOR 3
#define CROWD_YIELDS 64
#define SWITCH_NS    (RG__MS / 500)

struct waitv {
    uint64_t val;
    uint64_t uaddr;
    uint32_t flags;
    uint32_t reserved;
};

static _Atomic bool waitv_missing;
static _Atomic uint32_t
    crowd; /* quick yields: no other thread wants the processor */

static bool wait_many(const rg__word *words, int n, uint64_t timeout_ns)
{
    struct waitv v[4];
    for (int i = 0; i < n; i++)
        v[i] = (struct waitv){.val = words[i].seen,
                              .uaddr = (uint64_t)(uintptr_t)words[i].at,
                              .flags = 2 /* FUTEX_32, shared */};
    const struct timespec until = rg__timespec(rg__now_ns() + timeout_ns);
    const long rc = syscall(SYS_futex_waitv, v, n, 0, &until, CLOCK_MONOTONIC);
    return !(rc < 0 && (errno == ENOSYS || errno == EPERM));
}

static void wait_one(const rg__word *word, uint64_t timeout_ns)
{
    const struct timespec left = rg__timespec(timeout_ns);
    syscall(SYS_futex, word->at, FUTEX_WAIT, word->seen, &left, NULL, 0);
}

void rg__futex_wait_any(const rg__word *words, int n, uint64_t timeout_ns)
{
    if (n == 1) {
        wait_one(words, timeout_ns);
        return;
    }
    if (!atomic_load_explicit(&waitv_missing, memory_order_relaxed)) {
        if (wait_many(words, n, timeout_ns))
            return;
        atomic_store_explicit(&waitv_missing, true, memory_order_relaxed);
    }
    wait_one(words, timeout_ns < SLICE_NS ? timeout_ns : SLICE_NS);
}

void rg__futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void rg__bell_ring_for(rg__bell *bell, uint32_t bits)
{
    if ((atomic_load_explicit(&bell->wants, memory_order_relaxed) & bits) == 0)
        return;
    atomic_fetch_add(&bell->seq, 1);
    rg__futex_wake(&bell->seq);
}

void rg__bell_ring(rg__bell *bell)
{
    atomic_thread_fence(memory_order_seq_cst);
    rg__bell_ring_for(bell, UINT32_MAX);
}

/* A thread that waits here may keep the processor from the very peers that it
 * waits for. A yield that takes long shows that others want it: then yield
 * without pausing first, and for longer, since each yield lets them go on. A
 * poll that took long has let them run already (MPI may yield by itself): then
 * poll again. */
static void yield(void)
{
    static _Thread_local uint64_t last;
    const uint64_t before = rg__now_ns();
    const bool was_away = before - last > SWITCH_NS;
    if (!was_away)
        sched_yield();
    last = was_away ? before : rg__now_ns();
    const uint32_t left = atomic_load_explicit(&crowd, memory_order_relaxed);
    if (was_away || last - before > SWITCH_NS)
        atomic_store_explicit(&crowd, CROWD_YIELDS, memory_order_relaxed);
    else if (left > 0)
        atomic_store_explicit(&crowd, left - 1, memory_order_relaxed);
}

static void pause_once(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

const rg__wait_policy rg__wait_usual = {
    .pauses = 200, .yields = 20, .sleep_ns = 5 * RG__MS};

void rg__rest(const rg__wait_policy *p)
{
    if (p->keeps_processor)
        pause_once();
    else
        yield();
}

bool rg__is_crowded(const rg__wait_policy *p)
{
    return !p->keeps_processor &&
           atomic_load_explicit(&crowd, memory_order_relaxed) > 0;
}

int rg__spin(const rg__wait_policy *p, uint32_t round)
{
    const bool is_crowded = rg__is_crowded(p);
    if (round < p->pauses && !is_crowded)
        pause_once();
    else if (round < p->pauses + (is_crowded ? CROWD_FACTOR : 1) * p->yields)
        rg__rest(p);
    else
        return 0;
    return 1;
}
