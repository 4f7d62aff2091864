/* The thread that watches a worker sleeps until the worker dies, also where the
 * kernel can't wait for two words at once (before Linux 5.16), and ends at once
 * when the watch does.
 *
 * Covers: deathwatch.c */
#include "tests/agent/agents.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/futex.h"
#include "tests/lib/refuse.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define WATCHES 200
#define LOOK_NS (1000 * RG__MS)
#define MOST    50 /* wakes in that time, of all threads here */

static bool is_dead;

static void on_death(void *arg)
{
    (void)arg;
    is_dead = true;
}

static bool has_died(void *arg)
{
    (void)arg;
    return is_dead;
}

static rg__watcher *watch(rg__loop *loop, rg__page *page)
{
    rg__watcher *w = NULL;
    CHECK_OK(rg__watch_create(loop, page, on_death, NULL, &w));
    return w;
}

static long count_wakes(void)
{
    struct rusage used;
    CHECK_EQ(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_nvcsw;
}

static void check_sleep(rg__loop *loop, rg__page *page)
{
    rg__watcher *w = watch(loop, page);
    const long before = count_wakes();
    rg__sleep_ns(LOOK_NS);
    const long wakes = count_wakes() - before;
    printf("%ld wakes\n", wakes);
    CHECK(wakes < MOST);
    rg__watch_destroy(w);
}

static void check_ends(rg__loop *loop, rg__page *page)
{
    const uint64_t begin = rg__now_ns();
    for (int i = 0; i < WATCHES; i++)
        rg__watch_destroy(watch(loop, page));
    CHECK(rg__now_ns() - begin < 10000 * RG__MS);
    CHECK(!is_dead);
}

static void check_death(rg__loop *loop, rg__page *page)
{
    _Atomic uint32_t *word = (_Atomic uint32_t *)(void *)&page->life;
    rg__watcher *w = watch(loop, page);
    rg__sleep_ns(50 * RG__MS); /* it sleeps by now */
    atomic_fetch_or(word, FUTEX_OWNER_DIED);
    rg__futex_wake(word);
    loop_until(loop, has_died, NULL);
    rg__watch_destroy(w);
}

int main(void)
{
    rg__loop *loop = NULL;
    rg__page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    const uint32_t me = (uint32_t)syscall(SYS_gettid);
    refuse_call(SYS_futex_waitv, ENOSYS);
    CHECK_OK(rg__loop_create(&loop));
    atomic_store(&page->tid, (int32_t)me);
    *(_Atomic uint32_t *)(void *)&page->life = me;
    check_sleep(loop, page);
    check_ends(loop, page);
    check_death(loop, page);
    rg__loop_destroy(loop);
    munmap(page, sizeof *page);
    return 0;
}
