/* A minimal HTTP/1.0 responder.
 *
 *   reading ─> writing ─> draining ─> closed
 *      └── 5 s in all, or a head of more than 4 KiB ──┘
 *
 * Draining: a connection that is closed with bytes unread is reset, and the
 * answer is lost on its way. So we read whatever comes until the client
 * closes. */
#include "elastic/agent/control/scrape.h"
#include "elastic/agent/control/control_parts.h"
#include "elastic/agent/control/control.h"
#include "elastic/agent/control/scrape_request.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define CLIENTS_MAX 32
#define HEAD_MAX    4096
#define PATIENCE_NS (5000 * RG__MS)
#define DRAIN_NS    (500 * RG__MS)
#define PAUSE_NS    (1000 * RG__MS) /* after an accept that failed */

typedef struct client {
    struct client *next;
    rg__agent *a;
    int sock;
    rg__timer *patience;
    char head[HEAD_MAX];
    size_t n;
    char *answer; /* NULL: not asked yet */
    size_t at, end;
    bool is_draining;
} client;

struct rg__scrape {
    int listener;
    bool is_listening; /* the loop watches it */
    rg__timer *pause;
    client *clients;
};

/* ------------------------------------------------------------------ address */

rg_status rg__scrape_address(const char *text, rg__inet *at_p)
{
    const char *host, *port;
    char copy[80];
    snprintf(copy, sizeof copy, "%s", text);
    bool is_right =
        strlen(text) < sizeof copy && rg__inet_split(copy, &host, &port);
    if (is_right && port[0] == '\0' && text[0] != '[') { /* it stands alone */
        port = host;
        host = "127.0.0.1";
    }
    is_right =
        is_right && rg__inet_port_read(port) >= 0 &&
        rg__inet_find(host, port, AI_NUMERICHOST | AI_NUMERICSERV, at_p) == 0;
    return is_right
               ? RG_OK
               : rg__fail(RG_ERR_INVALID,
                          "--metrics \"%s\" is not an address to listen at; "
                          "one looks like 9100, 10.0.0.7:9100 or "
                          "[fd00::1]:9100, with port 0 for any that is free",
                          text);
}

static void show_place(int sock, char *text, size_t n)
{
    rg__inet at;
    char host[NI_MAXHOST]; /* of a link-local address with its zone */
    text[0] = '\0';
    if (rg__inet_of(sock, &at) &&
        getnameinfo(&at.any, rg__inet_bytes(&at), host, sizeof host, NULL, 0,
                    NI_NUMERICHOST) == 0)
        snprintf(text, n, at.any.sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u",
                 host, rg__inet_port(&at));
}

/* ------------------------------------------------------------------ clients */

static void listen_again(rg__scrape *s, rg__agent *a);

static void drop(void *client_arg)
{
    client *c = client_arg;
    rg__agent *a = c->a;
    rg__chain_remove(&a->control->scrape->clients, c);
    rg__loop_close(a->loop, &c->sock);
    rg__timer_destroy(c->patience);
    free(c->answer);
    free(c);
    listen_again(a->control->scrape, a);
}

/* A head of text, followed by what was asked for unless only the head was. */
static void put_answer(client *c, int code, const char *reason,
                       const char *body, bool is_head)
{
    static const char type[] = "text/plain; version=0.0.4; charset=utf-8";
    const int n = asprintf(&c->answer,
                           "HTTP/1.0 %d %s\r\nContent-Type: %s\r\n"
                           "Content-Length: %zu\r\n%sConnection: close\r\n\r\n"
                           "%s",
                           code, reason, type, strlen(body),
                           code == 405 ? "Allow: GET, HEAD\r\n" : "",
                           is_head ? "" : body);
    c->end = n > 0 ? (size_t)n : 0;
    if (n < 0)
        c->answer = NULL;
}

/* Up as long as the agent runs its loop: without etcd training goes on, and
 * starting the agent again would not help. */
static void answer_health(client *c, bool is_head)
{
    const rg__agent *a = c->a;
    char body[RG__TEXT_MAX + 128];
    snprintf(body, sizeof body, "%s\netcd %s\n",
             rg__life_is_ending(a)      ? a->verdict.why
             : a->departure.is_draining ? "ok, draining"
                                        : "ok",
             rg__etcd_is_up(a->etcd) ? "up" : "away");
    if (rg__life_is_ending(a))
        put_answer(c, 503, "Service Unavailable", body, is_head);
    else
        put_answer(c, 200, "OK", body, is_head);
}

static void answer_metrics(client *c, bool is_head)
{
    char *body = rg__metrics(c->a);
    if (body != NULL)
        put_answer(c, 200, "OK", body, is_head);
    else
        put_answer(c, 500, "Internal Server Error", "no memory\n", is_head);
    free(body);
}

static void answer(client *c, rg__scrape_verdict verdict,
                   const rg__scrape_request *request)
{
    if (verdict == RG__SCRAPE_METHOD)
        put_answer(c, 405, "Method Not Allowed", "GET or HEAD\n", false);
    else if (verdict != RG__SCRAPE_OK)
        put_answer(c, 400, "Bad Request", "this is not an HTTP request\n",
                   false);
    else if (strcmp(request->path, "/metrics") == 0)
        answer_metrics(c, request->is_head);
    else if (strcmp(request->path, "/healthz") == 0)
        answer_health(c, request->is_head);
    else
        put_answer(c, 404, "Not Found", "try /metrics or /healthz\n",
                   request->is_head);
}

/* ------------------------------------------------------------------- stages */

/* false: the client is gone. */
static bool read_head(client *c)
{
    rg__scrape_request request = {.path = ""};
    const ssize_t got = recv(c->sock, c->head + c->n, sizeof c->head - c->n, 0);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    c->n += (size_t)got;
    rg__scrape_verdict verdict = rg__scrape_read(c->head, c->n, &request);
    if (verdict == RG__SCRAPE_MORE && c->n == sizeof c->head)
        verdict = RG__SCRAPE_BAD;
    if (verdict == RG__SCRAPE_MORE)
        return true;
    answer(c, verdict, &request);
    return c->answer != NULL;
}

/* false: the client is gone. */
static bool write_answer(client *c)
{
    while (c->at < c->end) {
        const ssize_t put =
            send(c->sock, c->answer + c->at, c->end - c->at, MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return errno == EAGAIN;
        c->at += (size_t)put;
    }
    shutdown(c->sock, SHUT_WR);
    c->is_draining = true;
    rg__timer_set(c->patience, DRAIN_NS);
    return true;
}

/* false: the client has closed. */
static bool drain(const client *c)
{
    char rest[4096];
    const ssize_t got = recv(c->sock, rest, sizeof rest, 0);
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static void on_client(void *arg, int fd, uint32_t events)
{
    (void)events;
    client *c = arg;
    bool is_there = true;
    if (c->is_draining)
        is_there = drain(c);
    else if (c->answer == NULL)
        is_there = read_head(c);
    if (is_there && c->answer != NULL && !c->is_draining)
        is_there = write_answer(c);
    const bool is_writing = c->answer != NULL && !c->is_draining;
    if (!is_there ||
        rg__loop_watch(c->a->loop, fd, is_writing ? EPOLLOUT : EPOLLIN,
                       on_client, c) != RG_OK)
        drop(c);
}

/* ----------------------------------------------------------------- listener */

static int count_clients(const rg__scrape *s)
{
    int n = 0;
    for (const client *c = s->clients; c != NULL; c = c->next)
        n++;
    return n;
}

static void stop_listening(rg__scrape *s, rg__agent *a)
{
    if (s->is_listening)
        rg__loop_unwatch(a->loop, s->listener);
    s->is_listening = false;
}

static void meet(rg__agent *a, int sock)
{
    client *c = calloc(1, sizeof *c);
    rg__timer *patience = c != NULL ? rg__timer_create(a->loop, drop, c) : NULL;
    if (patience == NULL) {
        free(c);
        close(sock);
        return;
    }
    c->a = a;
    c->sock = sock;
    c->patience = patience;
    c->next = a->control->scrape->clients;
    a->control->scrape->clients = c;
    rg__timer_set(patience, PATIENCE_NS);
    if (rg__loop_watch(a->loop, sock, EPOLLIN, on_client, c) != RG_OK)
        drop(c);
}

/* No descriptor is free, perhaps: the connection stays where it is, and would
 * wake us again at once. */
static void on_listener(void *arg, int fd, uint32_t events)
{
    (void)events;
    rg__agent *a = arg;
    rg__scrape *s = a->control->scrape;
    const int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock >= 0)
        meet(a, sock);
    else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
        stop_listening(s, a);
        rg__timer_set(s->pause, PAUSE_NS);
    }
    if (count_clients(s) >= CLIENTS_MAX)
        stop_listening(s, a); /* until one is gone */
}

static void listen_again(rg__scrape *s, rg__agent *a)
{
    if (s->is_listening || rg__timer_is_set(s->pause) ||
        count_clients(s) >= CLIENTS_MAX)
        return;
    s->is_listening =
        rg__loop_watch(a->loop, s->listener, EPOLLIN, on_listener, a) == RG_OK;
}

static void on_pause(void *arg)
{
    rg__agent *a = arg;
    listen_again(a->control->scrape, a);
}

static rg_status open_listener(const rg__agent *a, int *listener_p)
{
    const int one = 1;
    rg__inet at;
    const rg_status st = rg__scrape_address(a->params->user.metrics, &at);
    if (st != RG_OK)
        return st;
    const int sock =
        socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock >= 0)
        setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (sock < 0 || bind(sock, &at.any, rg__inet_bytes(&at)) != 0 ||
        listen(sock, CLIENTS_MAX) != 0) {
        const int cause = errno;
        if (sock >= 0)
            close(sock);
        return rg__fail(RG_ERR_SYSTEM,
                        "metrics can't be shown at %s: %s; name another "
                        "address or port, or port 0 (--metrics)",
                        a->params->user.metrics, strerror(cause));
    }
    *listener_p = sock;
    return RG_OK;
}

rg_status rg__scrape_open(rg__agent *a)
{
    if (a->params->user.metrics == NULL)
        return RG_OK;
    rg__scrape *s = a->control->scrape = calloc(1, sizeof *s);
    if (s == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to show metrics");
    s->listener = -1;
    s->pause = rg__timer_create(a->loop, on_pause, a);
    if (s->pause == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to show metrics");
    const rg_status st = open_listener(a, &s->listener);
    if (st != RG_OK)
        return st;
    show_place(s->listener, a->control->metrics_at,
               sizeof a->control->metrics_at);
    rg__log(RG__INFO, "agent", "metrics at http://%s/metrics",
            a->control->metrics_at);
    listen_again(s, a);
    return s->is_listening ? RG_OK : RG_ERR_SYSTEM;
}

void rg__scrape_close(rg__agent *a)
{
    rg__scrape *s = a->control->scrape;
    if (s == NULL)
        return;
    while (s->clients != NULL)
        drop(s->clients);
    stop_listening(s, a);
    if (s->listener >= 0)
        close(s->listener);
    rg__timer_destroy(s->pause);
    free(s);
    a->control->scrape = NULL;
}
