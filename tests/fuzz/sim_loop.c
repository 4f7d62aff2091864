/* sdk/base/loop.h in simulated time. */
#include <poll.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "tests/fuzz/sim.h"

#define FD_MAX      256
#define SERVE_MAX   30
#define FIRE_MAX    1000
#define START_NS    UINT64_C(1000000000000)
#define REALTIME_NS UINT64_C(1700000000000000000)

typedef struct rg__source {
    int fd;
    uint32_t events;
    rg__fd_fn fn;
    void *arg;
} rg__source;

struct rg__timer {
    rg__loop *loop;
    rg__timer *next; /* sorted by at_ns while set */
    bool is_set;
    uint64_t at_ns;
    rg__timer_fn fn;
    void *arg;
};

struct rg__loop {
    rg__source source[FD_MAX];
    int sources;
    rg__timer *timers;
    bool is_stopped;
};

static uint64_t now_ns, random_state;
void (*sim_script)(rg__loop *loop);

void sim_begin(void)
{
    now_ns = START_NS;
    random_state = 1;
}

/* ------------------------------------------------------ wrapped libc calls */

int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    const uint64_t ns = clock == CLOCK_REALTIME ? REALTIME_NS + now_ns : now_ns;
    *t = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    return 0;
}

static uint64_t next_random(void)
{
    uint64_t x = random_state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

ssize_t __wrap_getrandom(void *to, size_t n, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)to)[i] = (uint8_t)next_random();
    return (ssize_t)n;
}

/* -------------------------------------------------------------------- loop */

rg_status rg__loop_create(rg__loop **loop_p)
{
    *loop_p = calloc(1, sizeof **loop_p);
    return *loop_p != NULL ? RG_OK : RG_ERR_MEMORY;
}

void rg__loop_destroy(rg__loop *loop)
{
    free(loop);
}

static rg__source *find_source(rg__loop *loop, int fd)
{
    for (int i = 0; i < loop->sources; i++)
        if (loop->source[i].fd == fd)
            return &loop->source[i];
    return NULL;
}

rg_status rg__loop_watch(rg__loop *loop, int fd, uint32_t events, rg__fd_fn fn,
                         void *arg)
{
    rg__source *s = find_source(loop, fd);
    if (s == NULL && loop->sources == FD_MAX)
        return RG_ERR_SYSTEM;
    if (s == NULL)
        s = &loop->source[loop->sources++];
    *s = (rg__source){fd, events, fn, arg};
    return RG_OK;
}

void rg__loop_unwatch(rg__loop *loop, int fd)
{
    rg__source *s = find_source(loop, fd);
    if (s != NULL)
        *s = loop->source[--loop->sources];
}

/* Each that is ready, once, unless another's turn has taken it out. poll's bits
 * are epoll's. */
static bool serve_round(rg__loop *loop)
{
    struct pollfd fds[FD_MAX];
    const int n = loop->sources;
    for (int i = 0; i < n; i++)
        fds[i] = (struct pollfd){.fd = loop->source[i].fd,
                                 .events = (short)loop->source[i].events};
    if (poll(fds, (nfds_t)n, 0) <= 0)
        return false;
    for (int i = 0; i < n && !loop->is_stopped; i++) {
        const rg__source *s =
            fds[i].revents != 0 ? find_source(loop, fds[i].fd) : NULL;
        if (s != NULL)
            s->fn(s->arg, s->fd, (uint32_t)fds[i].revents);
    }
    return true;
}

void sim_serve(rg__loop *loop)
{
    for (int i = 0; i < SERVE_MAX && !loop->is_stopped; i++)
        if (!serve_round(loop))
            return;
}

void rg__loop_run(rg__loop *loop)
{
    loop->is_stopped = false;
    if (sim_script != NULL)
        sim_script(loop);
}

/* No turn takes any time. */
void rg__loop_mind_turns(rg__loop *loop, uint64_t limit_ns, rg__turn_fn fn,
                         void *arg)
{
    (void)loop, (void)limit_ns, (void)fn, (void)arg;
}

void rg__loop_stop(rg__loop *loop)
{
    loop->is_stopped = true;
}

bool sim_is_stopped(const rg__loop *loop)
{
    return loop->is_stopped;
}

/* ------------------------------------------------------------------ timers */

rg__timer *rg__timer_create(rg__loop *loop, rg__timer_fn fn, void *arg)
{
    rg__timer *timer = calloc(1, sizeof *timer);
    if (timer != NULL)
        *timer = (rg__timer){.loop = loop, .fn = fn, .arg = arg};
    return timer;
}

void rg__timer_set(rg__timer *timer, uint64_t delay_ns)
{
    rg__timer_stop(timer);
    timer->at_ns = now_ns + delay_ns;
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

bool sim_fire(rg__loop *loop)
{
    rg__timer *timer = loop->timers;
    if (timer == NULL || loop->is_stopped)
        return false;
    if (timer->at_ns > now_ns)
        now_ns = timer->at_ns;
    rg__timer_stop(timer);
    timer->fn(timer->arg);
    return true;
}

void sim_pass(rg__loop *loop, uint64_t ns)
{
    const uint64_t end = now_ns + ns;
    for (int i = 0; loop != NULL && i < FIRE_MAX && loop->timers != NULL &&
                    loop->timers->at_ns <= end && sim_fire(loop);
         i++)
        continue;
    now_ns = now_ns > end ? now_ns : end;
}
