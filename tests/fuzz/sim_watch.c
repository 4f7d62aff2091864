/* elastic/agent/workers/deathwatch.c without a thread: a watcher looks at its
 * word when the fuzzer asks it to, and whenever another one is made. */
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "elastic/agent/workers/workers.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/sim.h"

struct rg__watcher {
    rg__watcher *next;
    rg__loop *loop;
    rg__page *page;
    uint32_t tid;
    rg__watch_fn fn;
    void *arg;
    int event;
};

static rg__watcher *watchers;

void sim_watch_look(void)
{
    const uint64_t one = 1;
    for (rg__watcher *w = watchers; w != NULL; w = w->next) {
        const uint32_t word = *(_Atomic uint32_t *)(void *)&w->page->life;
        if ((word & FUTEX_TID_MASK) != w->tid || (word & FUTEX_OWNER_DIED) ||
            atomic_load(&w->page->dying) != 0)
            FUZZ_CLAIM(write(w->event, &one, sizeof one) == sizeof one);
    }
}

static void on_event(void *arg, int fd, uint32_t events)
{
    (void)events;
    rg__watcher *w = arg;
    rg__loop_unwatch(w->loop, fd);
    w->fn(w->arg);
}

rg_status rg__watch_create(rg__loop *loop, rg__page *page, rg__watch_fn fn,
                           void *arg, rg__watcher **watcher_p)
{
    rg__watcher *w = calloc(1, sizeof *w);
    FUZZ_CLAIM(w != NULL);
    *w =
        (rg__watcher){.next = watchers,
                      .loop = loop,
                      .page = page,
                      .tid = (uint32_t)atomic_load(&page->tid) & FUTEX_TID_MASK,
                      .fn = fn,
                      .arg = arg,
                      .event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    FUZZ_CLAIM(w->event >= 0);
    watchers = w;
    rg__loop_watch(loop, w->event, EPOLLIN, on_event, w);
    *watcher_p = w;
    return RG_OK;
}

void rg__watch_destroy(rg__watcher *w)
{
    if (w == NULL)
        return;
    rg__watcher **at = &watchers;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    rg__loop_unwatch(w->loop, w->event);
    close(w->event);
    free(w);
}
