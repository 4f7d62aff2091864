/* epoll for descriptors, a sorted list for timers: an agent has tens of each.
 * Callbacks may add and remove anything, themselves included; an entry removed
 * while events are delivered is skipped and freed afterwards. */
#include "sdk/base/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define BATCH 512 /* more than an agent has ready at once */

typedef struct source {
    struct source *next;
    int fd; /* -1: removed, freed at the end of the round */
    rg__fd_fn fn;
    void *arg;
} source;

struct rg__timer {
    rg__loop *loop;
    rg__timer *next; /* sorted by at_ns while set */
    bool is_set;
    uint64_t at_ns;
    rg__timer_fn fn;
    void *arg;
};

typedef struct spent {
    uint64_t running_ns, ready_ns; /* ready: waiting for a processor */
} spent;

/* What the turn under way has cost so far. */
typedef struct turn {
    uint64_t limit_ns; /* 0: no limit */
    rg__turn_fn fn;
    void *arg;
    int times; /* schedstat of the loop's thread, -1: none */
    uint64_t began_ns;
    spent before;      /* when it began */
    uint64_t since_ns; /* the callback under way began */
    rg__turn slow;     /* the slowest callback of this turn */
} turn;

struct rg__loop {
    int epoll;
    bool stopped;
    source *sources, *removed;
    rg__timer *timers;
    turn turn;
};

rg_status rg__loop_create(rg__loop **loop_p)
{
    rg__loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an event loop");
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll < 0) {
        free(loop);
        return rg__fail(RG_ERR_SYSTEM, "epoll can't be made: %s",
                        strerror(errno));
    }
    loop->turn.times = -1;
    *loop_p = loop;
    return RG_OK;
}

static void free_sources(source *s)
{
    while (s != NULL) {
        source *next = s->next;
        free(s);
        s = next;
    }
}

void rg__loop_destroy(rg__loop *loop)
{
    if (loop == NULL)
        return;
    free_sources(loop->sources);
    free_sources(loop->removed);
    if (loop->turn.times >= 0)
        close(loop->turn.times);
    close(loop->epoll);
    free(loop);
}

static source *find_source(rg__loop *loop, int fd)
{
    for (source *s = loop->sources; s != NULL; s = s->next)
        if (s->fd == fd)
            return s;
    return NULL;
}

rg_status rg__loop_watch(rg__loop *loop, int fd, uint32_t events, rg__fd_fn fn,
                         void *arg)
{
    source *s = find_source(loop, fd);
    const int how = s != NULL ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (s == NULL) {
        s = calloc(1, sizeof *s);
        if (s == NULL)
            return rg__fail(RG_ERR_MEMORY, "no memory to watch a descriptor");
        s->fd = fd;
        s->next = loop->sources;
        loop->sources = s;
    }
    s->fn = fn;
    s->arg = arg;
    struct epoll_event ev = {.events = events, .data.ptr = s};
    if (epoll_ctl(loop->epoll, how, fd, &ev) != 0) {
        const int err = errno;
        rg__loop_unwatch(loop, fd);
        return rg__fail(RG_ERR_SYSTEM, "descriptor %d can't be watched: %s", fd,
                        strerror(err));
    }
    return RG_OK;
}

void rg__loop_unwatch(rg__loop *loop, int fd)
{
    for (source **at = &loop->sources; *at != NULL; at = &(*at)->next) {
        source *s = *at;
        if (s->fd != fd)
            continue;
        epoll_ctl(loop->epoll, EPOLL_CTL_DEL, fd, NULL);
        *at = s->next;
        s->fd = -1;
        s->next = loop->removed;
        loop->removed = s;
        return;
    }
}

rg__timer *rg__timer_create(rg__loop *loop, rg__timer_fn fn, void *arg)
{
    rg__timer *timer = calloc(1, sizeof *timer);
    if (timer == NULL)
        return NULL;
    timer->loop = loop;
    timer->fn = fn;
    timer->arg = arg;
    return timer;
}

void rg__timer_set(rg__timer *timer, uint64_t delay_ns)
{
    rg__timer_stop(timer);
    timer->at_ns = rg__now_ns() + delay_ns;
    timer->is_set = true;
    rg__timer **at = &timer->loop->timers;
    while (*at != NULL && (*at)->at_ns <= timer->at_ns)
        at = &(*at)->next;
    timer->next = *at;
    *at = timer;
}

void rg__timer_stop(rg__timer *timer)
{
    if (!timer->is_set)
        return;
    timer->is_set = false;
    rg__timer **at = &timer->loop->timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
}

bool rg__timer_is_set(const rg__timer *timer)
{
    return timer->is_set;
}

void rg__timer_destroy(rg__timer *timer)
{
    if (timer == NULL)
        return;
    rg__timer_stop(timer);
    free(timer);
}

/* ------------------------------------------------------------------- turns */

void rg__loop_mind_turns(rg__loop *loop, uint64_t limit_ns, rg__turn_fn fn,
                         void *arg)
{
    loop->turn.limit_ns = limit_ns;
    loop->turn.fn = fn;
    loop->turn.arg = arg;
}

/* This thread's processor time since it began. */
static spent read_spent(turn *t)
{
    char text[96] = "";
    unsigned long long running = 0, ready = 0;
    if (t->times < 0)
        t->times = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (t->times >= 0 && pread(t->times, text, sizeof text - 1, 0) > 0)
        sscanf(text, "%llu %llu", &running, &ready);
    return (spent){running, ready};
}

static void begin_turn(turn *t)
{
    if (t->limit_ns == 0)
        return;
    t->began_ns = t->since_ns = rg__now_ns();
    t->before = read_spent(t);
    t->slow = (rg__turn){0};
}

static void end_callback(turn *t, uintptr_t fn)
{
    if (t->limit_ns == 0)
        return;
    const uint64_t now = rg__now_ns();
    if (now - t->since_ns > t->slow.slowest_ns) {
        t->slow.slowest = fn;
        t->slow.slowest_ns = now - t->since_ns;
    }
    t->since_ns = now;
}

static void end_turn(turn *t)
{
    if (t->limit_ns == 0)
        return;
    const uint64_t wall = rg__now_ns() - t->began_ns;
    if (wall <= t->limit_ns)
        return;
    const spent now = read_spent(t);
    const uint64_t running = now.running_ns - t->before.running_ns;
    const uint64_t counted = running + now.ready_ns - t->before.ready_ns;
    const uint64_t asleep = wall > counted ? wall - counted : 0;
    t->slow.ns = running + asleep;
    if (running > t->limit_ns || asleep > RG__TURN_ASLEEP * t->limit_ns)
        t->fn(t->arg, &t->slow);
}

/* --------------------------------------------------------------------- run */

static int next_timeout_ms(const rg__loop *loop)
{
    if (loop->timers == NULL)
        return -1;
    const uint64_t now = rg__now_ns();
    if (loop->timers->at_ns <= now)
        return 0;
    const uint64_t ms = (loop->timers->at_ns - now + RG__MS - 1) / RG__MS;
    return ms > 60000 ? 60000 : (int)ms;
}

/* Those that were due when the loop looked for events: so a thread that was
 * held up since sees data before the end of the wait for them. */
static void fire_timers(rg__loop *loop, uint64_t looked_ns)
{
    while (!loop->stopped && loop->timers != NULL &&
           loop->timers->at_ns <= looked_ns) {
        rg__timer *timer = loop->timers;
        rg__timer_stop(timer);
        const rg__timer_fn fn = timer->fn;
        fn(timer->arg);
        end_callback(&loop->turn, (uintptr_t)fn);
    }
}

void rg__loop_run(rg__loop *loop)
{
    struct epoll_event events[BATCH];
    loop->stopped = false;
    while (!loop->stopped) {
        const int n =
            epoll_wait(loop->epoll, events, BATCH, next_timeout_ms(loop));
        const uint64_t looked_ns = rg__now_ns();
        begin_turn(&loop->turn);
        for (int i = 0; i < n && !loop->stopped; i++) {
            source *s = events[i].data.ptr;
            const rg__fd_fn fn = s->fn;
            if (s->fd >= 0)
                fn(s->arg, s->fd, events[i].events);
            end_callback(&loop->turn, (uintptr_t)fn);
        }
        fire_timers(loop, looked_ns);
        end_turn(&loop->turn);
        free_sources(loop->removed);
        loop->removed = NULL;
    }
}

void rg__loop_stop(rg__loop *loop)
{
    loop->stopped = true;
}
