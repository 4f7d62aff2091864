/* See accept.h. */
#include "elastic/agent/base/accept.h"
#include "elastic/agent/base/waits.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "sdk/base/clock.h"

#define REST_NS  (100 * RG__MS)
#define ROOM_KEY (UINT64_MAX - 1) /* those of slots are below */

static void watch_listeners(rg__agent *a, uint32_t events)
{
    rg__loop_watch(a->loop, a->sockets.listener, events, a->on->worker_calls,
                   a);
    if (a->sockets.peer_listener >= 0)
        rg__loop_watch(a->loop, a->sockets.peer_listener, events,
                       a->on->agent_calls, a);
}

/* Only a try shows whether there is room again. */
static void on_rested(void *agent_arg)
{
    rg__agent *a = agent_arg;
    a->on->worker_calls(a, a->sockets.listener, 0);
    if (rg__timer_is_set(a->sockets.rest))
        return;
    rg__wait_end(a, RG__WAIT_ROOM, ROOM_KEY);
    watch_listeners(a, EPOLLIN);
}

/* A caller stays in the listener's queue, and would wake this agent again at
 * once: so no calls are accepted for a while. */
static void rest(rg__agent *a)
{
    rg__wait_begin(a, RG__WAIT_ROOM, ROOM_KEY,
                   "a descriptor to accept connections: %s; raise ulimit -n",
                   strerror(errno));
    if (a->sockets.rest == NULL)
        a->sockets.rest = rg__timer_create(a->loop, on_rested, a);
    if (a->sockets.rest == NULL)
        return;
    watch_listeners(a, 0);
    rg__timer_set(a->sockets.rest, REST_NS);
}

int rg__agent_accept(rg__agent *a, int listener)
{
    const int sock =
        accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                     errno == ENOMEM))
        rest(a);
    return sock;
}

void rg__accept_drop(rg__agent *a)
{
    rg__timer_destroy(a->sockets.rest);
    a->sockets.rest = NULL;
}
