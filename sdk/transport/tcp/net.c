/* The net of one generation: its sockets, the thread that waits for them while
 * all others sleep, and the report about a link that broke.
 *
 * All sockets are in one epoll, level-triggered, which is in another one that
 * fires once. A thread that is about to sleep makes the first one look for what
 * the operations in flight wait for, and arms the second; so the net's thread
 * is woken at most once per sleep, and only for what an operation waits for. */
#include "sdk/transport/tcp/net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/start_thread.h"

#define REPORT_NS       (100 * RG__MS) /* a death is known by then */
#define EVENTS_PER_POLL 32
#define LAZY_POLLS      16
#define STUCK_LOOK_NS   (100 * RG__MS)

/* ------------------------------------------------------------------- epoll */

void rg__net_watch(rg__net *net, rg__watched *w, uint32_t mask)
{
    if (w->fd < 0 || w->mask == mask)
        return;
    struct epoll_event e = {.events = mask, .data.ptr = w};
    epoll_ctl(net->epoll,
              w->mask == NOT_WATCHED ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, w->fd,
              &e);
    w->mask = mask;
}

void rg__net_unwatch(rg__net *net, rg__watched *w)
{
    if (w->mask != NOT_WATCHED)
        epoll_ctl(net->epoll, EPOLL_CTL_DEL, w->fd, NULL);
    w->mask = NOT_WATCHED;
}

static void *wait_for_sockets(void *arg)
{
    rg__net *net = arg;
    for (;;) {
        struct epoll_event e;
        const int n = epoll_wait(net->outer, &e, 1, -1);
        if (n < 0 && errno != EINTR)
            return NULL;
        if (n <= 0)
            continue;
        if (e.data.fd == net->stop)
            return NULL;
        atomic_store(&net->has_event, true);
        rg__bell_ring(net->bell);
    }
}

static rg_status start_thread(rg__net *net)
{
    const int rc = rg__start_thread(&net->thread, wait_for_sockets, net);
    if (rc != 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "the thread that waits for connections can't be "
                        "started: %s",
                        strerror(rc));
    net->has_thread = true;
    return RG_OK;
}

static void stop_thread(rg__net *net)
{
    const uint64_t one = 1;
    if (!net->has_thread)
        return;
    (void)!write(net->stop, &one, sizeof one);
    pthread_join(net->thread, NULL);
}

static rg_status open_epolls(rg__net *net)
{
    net->epoll = epoll_create1(EPOLL_CLOEXEC);
    net->outer = epoll_create1(EPOLL_CLOEXEC);
    net->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event stop = {.events = EPOLLIN, .data.fd = net->stop};
    struct epoll_event once = {.data.fd = net->epoll};
    if (net->epoll < 0 || net->outer < 0 || net->stop < 0 ||
        epoll_ctl(net->outer, EPOLL_CTL_ADD, net->stop, &stop) != 0 ||
        epoll_ctl(net->outer, EPOLL_CTL_ADD, net->epoll, &once) != 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "no descriptors for connections to other hosts: %s; "
                        "raise ulimit -n",
                        strerror(errno));
    rg__net_watch(net, &net->listener, EPOLLIN);
    return RG_OK;
}

/* ------------------------------------------------------------- descriptors */

bool rg__net_raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 ||
        files.rlim_cur >= files.rlim_max)
        return false;
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        return false;
    rg__log(RG__INFO, "transport",
            "the limit of descriptors was raised from %llu to %llu (ulimit "
            "-n), since each set has connections of its own",
            (unsigned long long)before, (unsigned long long)files.rlim_max);
    return true;
}

/* -------------------------------------------------------------------- life */

static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    if (to != NULL)
        memcpy(to, from, bytes);
    return to;
}

static rg_status copy_boot(rg__net *net, const rg__boot *boot)
{
    const size_t n = (size_t)boot->size, hosts = (size_t)boot->host_count;
    net->generation = boot->generation;
    net->rank = boot->rank;
    net->size = boot->size;
    net->host_count = boot->host_count;
    net->broken = boot->broken;
    net->stuck = boot->stuck;
    net->broken_arg = boot->broken_arg;
    net->listener =
        (rg__watched){WATCHED_LISTENER, boot->listener, NOT_WATCHED};
    memcpy(net->key, boot->key, sizeof net->key);
    net->member = copy(boot->member, n * sizeof *net->member);
    net->place = copy(boot->place, n * sizeof *net->place);
    net->address = copy(boot->address, hosts * sizeof *net->address);
    net->message_out = calloc(n, sizeof(rg__link *));
    net->message_in = calloc(n, sizeof(rg__link *));
    if (net->member == NULL || net->place == NULL || net->address == NULL ||
        net->message_out == NULL || net->message_in == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for connections");
    return RG_OK;
}

rg_status rg__net_open(const rg__boot *boot, rg__bell *bell, rg__net **net_p)
{
    rg__net *net = calloc(1, sizeof *net);
    if (net == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for connections");
    net->epoll = net->outer = net->stop = -1;
    net->bell = bell;
    rg_status st = copy_boot(net, boot);
    if (st == RG_OK)
        st = open_epolls(net);
    if (st == RG_OK)
        st = start_thread(net);
    if (st != RG_OK) {
        rg__net_close(net);
        return st;
    }
    *net_p = net;
    return RG_OK;
}

static void close_lanes(rg__net *net)
{
    for (int r = 0; r < net->size && net->message_in != NULL; r++) {
        rg__link_destroy(net->message_out[r]);
        rg__link_destroy(net->message_in[r]);
    }
    free((void *)net->message_out);
    free((void *)net->message_in);
}

static void close_if(int fd)
{
    if (fd >= 0)
        close(fd);
}

void rg__net_close(rg__net *net)
{
    if (net == NULL)
        return;
    stop_thread(net);
    close_lanes(net);
    rg__handshake_drop_all(net);
    close_if(net->epoll);
    close_if(net->outer);
    close_if(net->stop);
    free(net->member);
    free(net->place);
    free(net->address);
    free(net);
}

/* -------------------------------------------------------------------- turns */

/* A broken link is not reported at once: if its peer has died, or has left a
 * generation that has ended, the agents know that better. */
static void report(rg__net *net, uint64_t now)
{
    if (net->broken_ns == 0 || net->is_reported ||
        now - net->broken_ns < REPORT_NS)
        return;
    net->is_reported = true;
    net->broken(net->broken_arg, net->broken_rank, net->broken_why);
}

static void look_for_stuck(rg__net *net, uint64_t now)
{
    if (net->stuck == NULL || now - net->looked_ns < STUCK_LOOK_NS)
        return;
    net->looked_ns = now;
    for (rg__link *l = net->links; l != NULL; l = l->next) {
        const rg__link_wait wait = rg__link_look(l, now);
        if (wait.is_stuck)
            net->stuck(net->broken_arg, l->rank, wait.bytes, wait.waited_ms);
    }
}

/* A link that is up is not watched again before its operation has looked. */
static void on_link_event(rg__link *l, uint32_t events)
{
    if (l->state == LINK_CONNECTING || l->state == LINK_GREETING) {
        rg__handshake_greet(l);
        return;
    }
    l->wants = 0;
    if ((events & (EPOLLHUP | EPOLLERR)) != 0)
        rg__net_unwatch(l->net, &l->watched); /* or it reports forever */
    else
        rg__net_watch(l->net, &l->watched, 0);
}

static void on_event(rg__net *net, rg__watched *w, uint32_t events,
                     uint64_t now)
{
    switch (w->kind) {
    case WATCHED_LISTENER:
        rg__handshake_accept(net, now);
        break;
    case WATCHED_GUEST:
        rg__handshake_guest((rg__guest *)(void *)w);
        break;
    case WATCHED_LINK:
        on_link_event((rg__link *)(void *)w, events);
        break;
    }
}

/* One event at a time: what it leads to may free what the next is about. */
static void handle_events(rg__net *net, uint64_t now)
{
    for (int i = 0; i < EVENTS_PER_POLL; i++) {
        struct epoll_event e;
        if (epoll_wait(net->epoll, &e, 1, 0) <= 0)
            return;
        on_event(net, e.data.ptr, e.events, now);
    }
}

static void turn(rg__net *net)
{
    const uint64_t now = rg__now_ns();
    if (net->deaf_until_ns != 0 && now >= net->deaf_until_ns) {
        net->deaf_until_ns = 0;
        rg__net_watch(net, &net->listener, EPOLLIN);
    }
    handle_events(net, now);
    for (rg__link *l = net->links; l != NULL; l = l->next)
        if (!rg__link_is_settled(l) && l->connects &&
            l->state != LINK_GREETING && now >= l->again_ns)
            rg__handshake_connect(l, now);
    rg__handshake_turn_out(net, now);
    report(net, now);
    look_for_stuck(net, now);
}

void rg__net_poll(rg__net *net, bool is_urgent)
{
    const bool has_event =
        atomic_load_explicit(&net->has_event, memory_order_relaxed);
    if (!is_urgent && !has_event && ++net->polls % LAZY_POLLS != 0)
        return;
    if (has_event)
        atomic_store(&net->has_event, false);
    turn(net);
}

void rg__net_arm(rg__net *net)
{
    if (net->operations == 0 && net->messages == 0)
        return;
    bool is_needed = net->messages != 0; /* a peer may open a lane */
    for (rg__link *l = net->links; l != NULL; l = l->next) {
        if (l->state == LINK_UP &&
            (l->wants != 0 || l->watched.mask != NOT_WATCHED))
            rg__net_watch(net, &l->watched, l->wants);
        is_needed |= l->wants != 0 || !rg__link_is_settled(l);
    }
    struct epoll_event once = {.events = EPOLLIN | EPOLLONESHOT,
                               .data.fd = net->epoll};
    if (is_needed)
        epoll_ctl(net->outer, EPOLL_CTL_MOD, net->epoll, &once);
}
