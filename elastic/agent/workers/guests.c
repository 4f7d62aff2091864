/* Connections to the agent's socket that have not yet said what they are for: a
 * worker that will say HELLO, or a `regroup` command with a question. They must
 * have our uid. There are few at a time, and none for long: one too many
 * replaces the oldest, and each has PATIENCE_NS for its first message. */
#include "elastic/agent/workers/workers.h"
#include "elastic/agent/workers/crew.h"
#include "elastic/agent/base/accept.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/sock.h"

#define GUESTS_MAX  (2 * RG__HOST_SLOTS_MAX)
#define PATIENCE_NS (10000 * RG__MS)

struct rg__guest {
    rg__guest *next; /* an older one */
    rg__agent *a;
    int sock;
    rg__timer *end;
};

/* Its socket is the caller's from now on. */
static int let_go(rg__guest *g)
{
    const int sock = g->sock;
    rg__chain_remove(&g->a->crew->guests, g);
    rg__loop_unwatch(g->a->loop, sock);
    rg__timer_destroy(g->end);
    free(g);
    return sock;
}

static void drop(void *arg)
{
    close(let_go(arg));
}

static bool has_our_uid(int sock, pid_t *pid_p)
{
    struct ucred who;
    socklen_t n = sizeof who;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0)
        return false;
    *pid_p = who.pid;
    return who.uid == geteuid();
}

/* A connection's first message says what it wants. */
static void on_first_message(void *arg, int sock, uint32_t events)
{
    rg__guest *g = arg;
    rg__agent *a = g->a;
    static _Alignas(16) char room[RG__WIRE_MAX]; /* one thread, not nested */
    size_t n = 0;
    int fds[RG__SOCK_FDS];
    pid_t pid = 0;
    (void)events;
    const rg_status st = rg__sock_recv(sock, room, sizeof room, &n, fds);
    rg__sock_close_fds(fds);
    if (st == RG_IN_PROGRESS)
        return;
    let_go(g);
    const rg__wire_head *head = (const void *)room;
    if (st != RG_OK || n < sizeof *head || !has_our_uid(sock, &pid))
        close(sock);
    else if (head->type == RG__HELLO)
        rg__worker_hello(a, sock, room, n, pid);
    else if (!a->on->launch_calls(a, sock, room, n, pid) &&
             !a->on->asked(a, sock, room, n))
        rg__worker_refuse(
            a, sock, "a connection began with something that is not Regroup's");
}

static void make_place(rg__agent *a)
{
    rg__guest *oldest = a->crew->guests;
    int n = 1;
    for (; oldest != NULL && oldest->next != NULL; oldest = oldest->next)
        n++;
    if (n >= GUESTS_MAX)
        drop(oldest);
}

static rg__guest *add(rg__agent *a, int sock)
{
    rg__guest *g = calloc(1, sizeof *g);
    if (g == NULL)
        return NULL;
    *g = (rg__guest){.next = a->crew->guests, .a = a, .sock = sock};
    a->crew->guests = g;
    g->end = rg__timer_create(a->loop, drop, g);
    if (g->end != NULL &&
        rg__loop_watch(a->loop, sock, EPOLLIN, on_first_message, g) == RG_OK)
        return g;
    let_go(g);
    return NULL;
}

void rg__guest_accept(void *agent_arg, int listener, uint32_t events)
{
    rg__agent *a = agent_arg;
    pid_t pid;
    (void)events;
    const int sock = rg__agent_accept(a, listener);
    if (sock < 0)
        return;
    make_place(a);
    const rg__guest *g = has_our_uid(sock, &pid) ? add(a, sock) : NULL;
    if (g != NULL)
        rg__timer_set(g->end, PATIENCE_NS);
    else
        close(sock);
}

void rg__guests_drop(rg__agent *a)
{
    while (a->crew->guests != NULL)
        drop(a->crew->guests);
    rg__accept_drop(a);
}
