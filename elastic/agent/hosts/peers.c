/* Connections between agents.
 *
 *   caller                                   listener
 *   hello (magic, version, host, nonce) ->
 *                                       <-   hello, proof
 *   proof, first frame                  ->
 *
 * A proof is the MAC of both hellos under the job's key, labelled by the side
 * that gives it, so that neither side's proof serves as the other's. Until then
 * only the two hellos are read, and there are few such strangers at a time: one
 * too many replaces the oldest.
 *
 * A caller that comes before this agent has the job's key is turned away.
 *
 * A connection ends after a silence, however long it has lived; each event
 * moves one frame and no more, so that the loop's other work goes on. */
#include "elastic/agent/hosts/peers.h"
#include "elastic/agent/base/accept.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/address.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/proof.h"

#define VERSION         1u
#define MAGIC           UINT64_C(0x31726565705f6772)
#define STRANGERS_MAX   16
#define CONNECTIONS_MAX 1024
#define PROVE_NS        (2000 * RG__MS) /* for a caller that we don't know */
#define WHY_MAX         128

typedef struct hello {
    uint64_t magic; /* also shows the order of bytes */
    uint32_t version, unused;
    uint64_t host;
    uint8_t nonce[RG__NONCE_BYTES];
} hello;

typedef struct head {
    uint32_t type, bytes; /* of the body */
} head;

#define FRAME_MAX (sizeof(head) + RG__PEER_BODY_MAX)
#define FIRST_MAX                                                              \
    (sizeof(hello) +                                                           \
     RG__MAC_BYTES) /* before the key is proved                \
                                     */

typedef enum phase { MEETING, PROVING, OPEN } phase;

typedef struct queue {
    char *bytes;
    size_t room, begin, end;
} queue;

struct rg__connection {
    rg__connection *next;
    rg__agent *a;
    int sock;
    bool is_caller; /* we called */
    bool is_connecting, is_busy, is_closed;
    phase phase;
    uint32_t watched; /* events of its socket */
    uint64_t wanted;  /* incarnation that we called; 0: any */
    hello mine, theirs;
    queue in, out;
    const rg__connection_fns *fns; /* NULL: not taken over yet */
    void *arg;
    rg__timer *silence;
};

static void on_event(void *arg, int fd, uint32_t events);

/* --------------------------------------------------------------------- end */

static void free_connection(rg__connection *c)
{
    for (rg__connection **at = &c->a->connections; *at != NULL;
         at = &(*at)->next)
        if (*at == c) {
            *at = c->next;
            break;
        }
    rg__timer_destroy(c->silence);
    free(c->in.bytes);
    free(c->out.bytes);
    free(c);
}

void rg__connection_close(rg__connection *c)
{
    if (c->is_closed)
        return;
    c->is_closed = true;
    rg__loop_close(c->a->loop, &c->sock);
    if (!c->is_busy)
        free_connection(c);
}

/* The owner is told last: it may begin anything, also another call. */
static void end_connection(rg__connection *c, const char *why)
{
    const rg__connection_fns *fns = c->fns;
    void *arg = c->arg;
    if (c->is_closed)
        return;
    if (fns == NULL)
        rg__log(RG__DEBUG, "agent", "a connection from elsewhere ends: %s",
                why);
    rg__connection_close(c);
    if (fns != NULL)
        fns->gone(arg, why);
}

static uint64_t patience_ns(const rg__connection *c)
{
    if (c->phase != OPEN && !c->is_caller)
        return PROVE_NS;
    return rg__patience_ns(c->a->params) * RG__SILENT_BUDGETS;
}

static void on_silence(void *arg)
{
    rg__connection *c = arg;
    char why[WHY_MAX];
    snprintf(why, sizeof why, "nothing came for %llu ms",
             (unsigned long long)(patience_ns(c) / RG__MS));
    end_connection(c, why);
}

/* ------------------------------------------------------------------- begin */

static bool make_room(queue *q, size_t room)
{
    char *more = realloc(q->bytes, room);
    if (more == NULL)
        return false;
    q->bytes = more;
    q->room = room;
    return true;
}

static void put(rg__connection *c, const void *bytes, size_t n)
{
    memcpy(c->out.bytes + c->out.end, bytes, n);
    c->out.end += n;
}

static bool prepare(rg__connection *c)
{
    c->mine = (hello){.magic = MAGIC, .version = VERSION, .host = c->a->id};
    c->silence = rg__timer_create(c->a->loop, on_silence, c);
    if (c->silence == NULL || !make_room(&c->in, FIRST_MAX) ||
        !make_room(&c->out, FIRST_MAX) ||
        rg__random_bytes(c->mine.nonce, sizeof c->mine.nonce) != RG_OK)
        return false;
    put(c, &c->mine, sizeof c->mine);
    return true;
}

/* Takes the socket, also when it fails. */
static rg__connection *create(rg__agent *a, int sock, bool is_caller)
{
    const int on = 1;
    rg__connection *c = calloc(1, sizeof *c);
    if (c == NULL) {
        close(sock);
        return NULL;
    }
    *c = (rg__connection){.a = a,
                          .sock = sock,
                          .is_caller = is_caller,
                          .is_connecting = is_caller,
                          .watched = EPOLLIN | EPOLLOUT,
                          .next = a->connections};
    a->connections = c;
    setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (!prepare(c) ||
        rg__loop_watch(a->loop, sock, c->watched, on_event, c) != RG_OK) {
        rg__connection_close(c);
        return NULL;
    }
    rg__timer_set(c->silence, patience_ns(c));
    return c;
}

/* ------------------------------------------------------------------- frames */

void rg__connection_take(rg__connection *c, const rg__connection_fns *fns,
                         void *arg)
{
    c->fns = fns;
    c->arg = arg;
}

bool rg__connection_no_frame(void *arg, uint32_t type, const void *body,
                             size_t n)
{
    (void)arg, (void)type, (void)body, (void)n;
    return false;
}

void rg__connection_no_room(void *arg)
{
    (void)arg; /* the other side closes */
}

void *rg__connection_space(rg__connection *c)
{
    if (c->phase != OPEN || c->is_closed || c->out.begin != c->out.end)
        return NULL;
    return c->out.bytes + sizeof(head);
}

static void watch(rg__connection *c)
{
    const uint32_t events =
        c->out.begin != c->out.end ? EPOLLIN | EPOLLOUT : EPOLLIN;
    if (events == c->watched)
        return;
    c->watched = events;
    if (rg__loop_watch(c->a->loop, c->sock, events, on_event, c) != RG_OK)
        rg__timer_set(c->silence, 0);
}

void rg__connection_send(rg__connection *c, uint32_t type, size_t n)
{
    const head h = {type, (uint32_t)n};
    memcpy(c->out.bytes, &h, sizeof h);
    c->out.begin = 0;
    c->out.end = sizeof h + n;
    if (!c->is_busy)
        watch(c);
}

/* ------------------------------------------------------------------- prove */

static const char *label_of(bool is_caller)
{
    return is_caller ? "regroup agent calls" : "regroup agent answers";
}

static void prove(rg__connection *c)
{
    uint8_t mac[RG__MAC_BYTES];
    rg__mac_make(mac, c->a->key, label_of(c->is_caller), &c->mine,
                 sizeof c->mine, &c->theirs, sizeof c->theirs);
    put(c, mac, sizeof mac);
}

static void on_hello(rg__connection *c, const void *bytes)
{
    memcpy(&c->theirs, bytes, sizeof c->theirs);
    if (c->theirs.magic != MAGIC || c->theirs.version != VERSION)
        end_connection(c, "it is not an agent of this version of Regroup");
    else if (c->wanted != 0 && c->theirs.host != c->wanted)
        end_connection(c, "another agent answers at its address");
    else {
        c->phase = PROVING;
        prove(c);
    }
}

static void on_proof(rg__connection *c, const void *bytes)
{
    if (!rg__mac_is(bytes, c->a->key, label_of(!c->is_caller), &c->theirs,
                    sizeof c->theirs, &c->mine, sizeof c->mine))
        end_connection(c, "it can't prove the job's key");
    else if (!make_room(&c->in, FRAME_MAX) || !make_room(&c->out, FRAME_MAX))
        end_connection(c, "no memory for a connection");
    else {
        c->phase = OPEN;
        if (c->fns != NULL && c->out.begin == c->out.end)
            c->fns->room(c->arg);
    }
}

/* ----------------------------------------------------------------- receive */

static void on_frame(rg__connection *c, const head *h, const void *body)
{
    const bool is_good =
        c->fns != NULL
            ? c->fns->frame(c->arg, h->type, body, h->bytes)
            : c->a->on->agent_asked(c->a, c, h->type, body, h->bytes);
    if (!is_good)
        end_connection(c, "it sent an unexpected message");
}

/* Bytes of the next whole thing, at least; more once its head is here. */
static size_t next_size(const rg__connection *c)
{
    head h;
    if (c->phase != OPEN)
        return c->phase == MEETING ? sizeof(hello) : RG__MAC_BYTES;
    if (c->in.end - c->in.begin < sizeof h)
        return sizeof h;
    memcpy(&h, c->in.bytes + c->in.begin, sizeof h);
    return sizeof h + h.bytes;
}

static void take_next(rg__connection *c, size_t size)
{
    const char *at = c->in.bytes + c->in.begin;
    head h;
    c->in.begin += size;
    if (c->phase == MEETING) {
        on_hello(c, at);
    } else if (c->phase == PROVING) {
        on_proof(c, at);
    } else {
        memcpy(&h, at, sizeof h);
        on_frame(c, &h, at + sizeof h);
    }
}

/* false: the next thing is not whole yet. */
static bool handle_next(rg__connection *c)
{
    const size_t size = next_size(c);
    if (size > FRAME_MAX) {
        end_connection(c, "it sent a frame that is too large");
        return false;
    }
    if (c->in.end - c->in.begin < size)
        return false;
    take_next(c, size);
    return !c->is_closed;
}

static void compact(queue *q)
{
    if (q->begin == 0)
        return;
    memmove(q->bytes, q->bytes + q->begin, q->end - q->begin);
    q->end -= q->begin;
    q->begin = 0;
}

static void receive(rg__connection *c)
{
    const ssize_t n = recv(c->sock, c->in.bytes + c->in.end,
                           c->in.room - c->in.end, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        end_connection(c,
                       n == 0 ? "it closed the connection" : strerror(errno));
        return;
    }
    c->in.end += (size_t)n;
    while (handle_next(c))
        continue;
    if (c->is_closed)
        return;
    rg__timer_set(c->silence, patience_ns(c)); /* the key may be proved now */
    compact(&c->in);
}

/* -------------------------------------------------------------------- send */

static void transmit(rg__connection *c)
{
    const ssize_t n = send(c->sock, c->out.bytes + c->out.begin,
                           c->out.end - c->out.begin, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        end_connection(c, strerror(errno));
        return;
    }
    rg__timer_set(c->silence, patience_ns(c));
    c->out.begin += (size_t)n;
    if (c->out.begin < c->out.end)
        return;
    c->out.begin = c->out.end = 0;
    if (c->phase == OPEN && c->fns != NULL)
        c->fns->room(c->arg);
}

static void finish_connect(rg__connection *c)
{
    int err = 0;
    socklen_t n = sizeof err;
    if (getsockopt(c->sock, SOL_SOCKET, SO_ERROR, &err, &n) != 0)
        err = errno;
    c->is_connecting = false;
    if (err != 0)
        end_connection(c, strerror(err));
}

static void on_event(void *arg, int fd, uint32_t events)
{
    rg__connection *c = arg;
    (void)fd;
    c->is_busy = true;
    if (c->is_connecting)
        finish_connect(c);
    if (!c->is_closed && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        receive(c);
    if (!c->is_closed && c->out.begin != c->out.end)
        transmit(c);
    if (!c->is_closed)
        watch(c);
    c->is_busy = false;
    if (c->is_closed)
        free_connection(c);
}

/* -------------------------------------------------------------------- call */

rg_status rg__connection_call(rg__agent *a, const rg__address *address,
                              uint32_t port, uint64_t host,
                              const rg__connection_fns *fns, void *arg,
                              rg__connection **c_p)
{
    rg__inet at;
    int sock = -1;
    if (rg__inet_read(address, port, &at))
        sock = socket(at.any.sa_family,
                      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock < 0 || (connect(sock, &at.any, rg__inet_bytes(&at)) != 0 &&
                     errno != EINPROGRESS)) {
        const int err = errno;
        if (sock >= 0)
            close(sock);
        return rg__fail(RG_ERR_SYSTEM,
                        "the agent at %s port %u can't be called: %s",
                        address->text, port, strerror(err));
    }
    rg__connection *c = create(a, sock, true);
    if (c == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a connection");
    c->wanted = host;
    c->fns = fns;
    c->arg = arg;
    *c_p = c;
    return RG_OK;
}

/* ------------------------------------------------------------------ listen */

static void make_place_for_stranger(rg__agent *a)
{
    rg__connection *oldest = NULL; /* new ones are put in front */
    int n = 0;
    for (rg__connection *c = a->connections; c != NULL; c = c->next)
        if (!c->is_caller && c->phase != OPEN) {
            oldest = c;
            n++;
        }
    if (n >= STRANGERS_MAX)
        end_connection(oldest,
                       "too many other callers have not proved the key");
}

static int count_connections(const rg__agent *a)
{
    int n = 0;
    for (const rg__connection *c = a->connections; c != NULL; c = c->next)
        n++;
    return n;
}

void rg__peers_accept(void *agent_arg, int fd, uint32_t events)
{
    rg__agent *a = agent_arg;
    (void)events;
    const int sock = rg__agent_accept(a, fd);
    if (sock < 0)
        return;
    make_place_for_stranger(a);
    if (a->lease == NULL || count_connections(a) >= CONNECTIONS_MAX)
        close(sock);
    else
        create(a, sock, false);
}

rg_status rg__peers_listen(rg__agent *a)
{
    rg__inet at;
    const int yes = 1; /* this agent's connections may outlive it: they and the
                          next agent both need this */
    if (!rg__inet_read(&a->address, a->port, &at))
        return rg__fail(RG_ERR_INVALID, "%s is no address", a->address.text);
    a->sockets.peer_listener =
        socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(a->sockets.peer_listener, SOL_SOCKET, SO_REUSEADDR, &yes,
               sizeof yes);
    if (a->sockets.peer_listener < 0 ||
        bind(a->sockets.peer_listener, &at.any, rg__inet_bytes(&at)) != 0 ||
        listen(a->sockets.peer_listener, SOMAXCONN) != 0 ||
        !rg__inet_of(a->sockets.peer_listener, &at))
        return rg__fail(RG_ERR_SYSTEM,
                        "the agent can't listen at %s for other agents: %s; is "
                        "it an address of this host? (--advertise, "
                        "--interface)",
                        a->address.text, strerror(errno));
    a->port = rg__inet_port(&at);
    return rg__loop_watch(a->loop, a->sockets.peer_listener, EPOLLIN,
                          rg__peers_accept, a);
}

void rg__peers_close(rg__agent *a)
{
    while (a->connections != NULL)
        end_connection(a->connections, "this agent ends");
    rg__loop_close(a->loop, &a->sockets.peer_listener);
}
