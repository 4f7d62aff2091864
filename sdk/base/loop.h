/* A small event loop: descriptors, timers, and things to do next. One thread.
 */
#ifndef RG_BASE_LOOP_H
#define RG_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "regroup/regroup.h"

typedef struct rg__loop rg__loop;
typedef struct rg__timer rg__timer;

rg_status rg__loop_create(rg__loop **loop_p);
void rg__loop_destroy(rg__loop *loop); /* closes no watched descriptor */

/* Watch a descriptor for EPOLLIN | EPOLLOUT events (0: none for now); calling
 * again for the same fd changes events, fn and arg. */
typedef void (*rg__fd_fn)(void *arg, int fd, uint32_t events);
rg_status rg__loop_watch(rg__loop *loop, int fd, uint32_t events, rg__fd_fn fn,
                         void *arg);
/* Stop watching; before the descriptor is closed. Unknown fds are ignored. */
void rg__loop_unwatch(rg__loop *loop, int fd);
/* Stop watching, close, and make it -1; nothing if it is -1. */
static inline void rg__loop_close(rg__loop *loop, int *fd)
{
    if (*fd < 0)
        return;
    rg__loop_unwatch(loop, *fd);
    close(*fd);
    *fd = -1;
}

/* A timer belongs to its owner, fires once per set, and may be set again from
 * its own callback. */
typedef void (*rg__timer_fn)(void *arg);
rg__timer *rg__timer_create(rg__loop *loop, rg__timer_fn fn, void *arg);
void rg__timer_set(rg__timer *timer, uint64_t delay_ns);
void rg__timer_stop(rg__timer *timer);
bool rg__timer_is_set(const rg__timer *timer);
void rg__timer_destroy(rg__timer *timer); /* NULL allowed */

/* A turn is all the work between two waits for events. Report one that computes
 * for longer than the limit, in the kernel too, or that sleeps for
 * RG__TURN_ASLEEP limits: the disk or process that it waits for may itself wait
 * for a processor. The time that the thread waited for one does not count. It
 * costs a read of a file for each turn. */
#define RG__TURN_ASLEEP 10
typedef struct rg__turn {
    uint64_t ns;
    uintptr_t slowest;   /* address of the function that took longest of it, */
    uint64_t slowest_ns; /* so long */
} rg__turn;
typedef void (*rg__turn_fn)(void *arg, const rg__turn *turn);
void rg__loop_mind_turns(rg__loop *loop, uint64_t limit_ns, rg__turn_fn fn,
                         void *arg);

/* Run until rg__loop_stop. A turn sees what has come before it fires timers,
 * and none that came to its time since the loop looked. */
void rg__loop_run(rg__loop *loop);
void rg__loop_stop(rg__loop *loop);

#endif
