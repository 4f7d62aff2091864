/* The proxy: one connection to the real server for each of a client. A request
 * that is held outlives its sender, as one in a stopped server does. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/etcd/fake.h"
#include "tests/etcd/wires.h"

typedef struct pipe_pair {
    proxy *owner;
    struct pipe_pair *next;
    int client, server; /* -1: closed */
    bytes_buffer to_client, to_server;
} pipe_pair;

struct proxy {
    rg__loop *loop;
    proxy_mode mode;
    int listener, dropped, unheard;
    pipe_pair *pairs;
    char url[64], upstream[64];
};

static void on_client(void *arg, int sock, uint32_t events);
static void on_server(void *arg, int sock, uint32_t events);

static void close_side(pipe_pair *pair, int *sock)
{
    if (*sock < 0)
        return;
    rg__loop_unwatch(pair->owner->loop, *sock);
    close(*sock);
    *sock = -1;
}

static void free_pair(pipe_pair *pair)
{
    pipe_pair **at = &pair->owner->pairs;
    while (*at != pair)
        at = &(*at)->next;
    *at = pair->next;
    close_side(pair, &pair->client);
    close_side(pair, &pair->server);
    free(pair->to_client.bytes);
    free(pair->to_server.bytes);
    free(pair);
}

static void watch_side(pipe_pair *pair, int sock, bool has_output, rg__fd_fn fn)
{
    const uint32_t events =
        (uint32_t)EPOLLIN | (has_output ? (uint32_t)EPOLLOUT : 0);
    if (sock >= 0)
        CHECK_OK(rg__loop_watch(pair->owner->loop, sock, events, fn, pair));
}

static void unwatch_both(pipe_pair *pair)
{
    rg__loop_unwatch(pair->owner->loop, pair->client);
    rg__loop_unwatch(pair->owner->loop, pair->server);
}

static void watch_both(pipe_pair *pair)
{
    const proxy_mode mode = pair->owner->mode;
    if (mode == PROXY_STALL) {
        unwatch_both(pair);
        return;
    }
    watch_side(pair, pair->client, pair->to_client.n > 0, on_client);
    watch_side(pair, pair->server, mode != PROXY_HOLD && pair->to_server.n > 0,
               on_server);
}

static void on_client(void *arg, int sock, uint32_t events)
{
    pipe_pair *pair = arg;
    if (events & EPOLLOUT)
        buffer_send(&pair->to_client, sock);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) &&
        !buffer_receive(&pair->to_server, sock)) {
        if (pair->to_server.n == 0) {
            free_pair(pair);
            return;
        }
        close_side(pair, &pair->client); /* its request is still to go */
    }
    watch_both(pair);
}

static bool must_drop(const pipe_pair *pair)
{
    return pair->owner->mode == PROXY_DROP_REPLY && pair->to_client.n > 0;
}

static void on_server(void *arg, int sock, uint32_t events)
{
    pipe_pair *pair = arg;
    proxy *p = pair->owner;
    if ((events & EPOLLOUT) && p->mode != PROXY_HOLD)
        buffer_send(&pair->to_server, sock);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) &&
        !buffer_receive(&pair->to_client, sock)) {
        free_pair(pair);
        return;
    }
    const bool is_unheard = pair->client < 0 && pair->to_client.n > 0;
    if (must_drop(pair) || is_unheard) {
        p->dropped += !is_unheard;
        p->unheard += is_unheard;
        p->mode = is_unheard ? p->mode : PROXY_PASS;
        free_pair(pair);
        return;
    }
    watch_both(pair);
}

static void on_listener(void *arg, int listener, uint32_t events)
{
    proxy *p = arg;
    (void)events;
    const int sock =
        accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (sock < 0)
        return;
    if (p->mode == PROXY_REFUSE) {
        close(sock);
        return;
    }
    pipe_pair *pair = calloc(1, sizeof *pair);
    CHECK(pair != NULL);
    pair->owner = p;
    pair->client = sock;
    pair->server = connect_to(p->upstream);
    pair->next = p->pairs;
    p->pairs = pair;
    watch_both(pair);
}

proxy *proxy_open(rg__loop *loop, const char *upstream_url)
{
    proxy *p = calloc(1, sizeof *p);
    CHECK(p != NULL);
    p->loop = loop;
    snprintf(p->upstream, sizeof p->upstream, "%s", upstream_url);
    p->listener = listen_somewhere(p->url, sizeof p->url);
    CHECK_OK(rg__loop_watch(loop, p->listener, EPOLLIN, on_listener, p));
    return p;
}

void proxy_close(proxy *p)
{
    while (p->pairs != NULL)
        free_pair(p->pairs);
    rg__loop_unwatch(p->loop, p->listener);
    close(p->listener);
    free(p);
}

const char *proxy_url(const proxy *p)
{
    return p->url;
}

void proxy_set(proxy *p, proxy_mode mode)
{
    p->mode = mode;
    while (mode == PROXY_REFUSE && p->pairs != NULL)
        free_pair(p->pairs);
    for (pipe_pair *pair = p->pairs; pair != NULL; pair = pair->next)
        watch_both(pair);
}

int proxy_dropped(const proxy *p)
{
    return p->dropped;
}

int proxy_answered_none(const proxy *p)
{
    return p->unheard;
}

int proxy_held(const proxy *p)
{
    int n = 0;
    for (const pipe_pair *pair = p->pairs; pair != NULL; pair = pair->next)
        n += pair->to_server.n > 0;
    return n;
}
