/* Deaths of workers: a thread per worker sleeps on the futex word of the robust
 * mutex in its page. The kernel marks the word and wakes one sleeper as soon as
 * the holder dies; a crash handler stores `dying` and wakes it too. The word is
 * read as plain memory: the worker may scribble on it, and then it counts as
 * dead. */
#include "elastic/agent/workers/workers.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/futex.h"
#include "sdk/base/start_thread.h"

/* A worker may overwrite the word so that nobody is woken. */
#define SLICE_NS (1000 * RG__MS)
#define PAUSE_NS (RG__MS / 20) /* between wakes of a thread that is to end */

struct rg__watcher {
    rg__loop *loop;
    rg__page *page;
    uint32_t tid; /* of the holder, as read when the watch began */
    rg__watch_fn fn;
    void *arg;
    int event;
    atomic_bool stop;
    pthread_t thread;
};

static _Atomic uint32_t *life_word(rg__page *page)
{
    return (_Atomic uint32_t *)(void *)&page->life;
}

static bool is_held(const rg__watcher *w, uint32_t word)
{
    return (word & FUTEX_TID_MASK) == w->tid && !(word & FUTEX_OWNER_DIED);
}

static void *run_watch(void *arg)
{
    rg__watcher *w = arg;
    _Atomic uint32_t *word = life_word(w->page);
    while (!atomic_load(&w->stop)) {
        uint32_t seen = atomic_load(word);
        if (!is_held(w, seen) || atomic_load(&w->page->dying) != 0)
            break;
        const uint32_t with_waiter = seen | FUTEX_WAITERS;
        if (seen != with_waiter &&
            !atomic_compare_exchange_strong(word, &seen, with_waiter))
            continue;
        const rg__word on = {word, with_waiter};
        rg__futex_wait_any(&on, 1, SLICE_NS);
    }
    const uint64_t one = 1;
    if (write(w->event, &one, sizeof one) < 0)
        return NULL; /* the counter can't overflow */
    return NULL;
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
    if (w == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to watch a worker");
    w->loop = loop;
    w->page = page;
    w->fn = fn;
    w->arg = arg;
    w->tid = (uint32_t)atomic_load(&page->tid) & FUTEX_TID_MASK;
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->event < 0 ||
        rg__loop_watch(loop, w->event, EPOLLIN, on_event, w) != RG_OK ||
        rg__start_thread(&w->thread, run_watch, w) != 0) {
        rg__loop_close(loop, &w->event);
        free(w);
        return rg__fail(RG_ERR_SYSTEM, "a worker can't be watched: %s",
                        strerror(errno));
    }
    *watcher_p = w;
    return RG_OK;
}

/* The thread may be between its look at `stop` and its sleep, and so not be
 * woken at once. To sleep on two words needs a kernel that has that: without
 * it the thread would wake 500 times a second. */
static void end_thread(rg__watcher *w)
{
    atomic_store(&w->stop, true);
    rg__futex_wake(life_word(w->page));
    while (pthread_tryjoin_np(w->thread, NULL) != 0) {
        rg__sleep_ns(PAUSE_NS);
        rg__futex_wake(life_word(w->page));
    }
}

void rg__watch_destroy(rg__watcher *w)
{
    if (w == NULL)
        return;
    end_thread(w);
    rg__loop_close(w->loop, &w->event);
    free(w);
}
