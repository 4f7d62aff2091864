/* How connections come up: connecting, greeting, accepting.
 *
 * A peer that connects to the listener is a guest. At first it is unknown, and
 * there are few places and little time for such guests. Its HELLO carries a
 * proof of the job's key, and it is asked for a second one, over a random
 * number of ours; then its identity is certain, and it waits until the link
 * that it wants is made; not for long once it has hung up, because that set may
 * have been given back here already. A guest that is pushed out or refused
 * tries again if it belongs to the job. */
#include "sdk/transport/tcp/net.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/address.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define ATTEMPT_NS  (1000 * RG__MS) /* of one attempt, since packets get lost */
#define GIVE_UP_NS  (3000 * RG__MS)
#define AGAIN_NS    (1 * RG__MS)
#define AGAIN_SHIFT 5
#define UNKNOWN_NS  (5000 * RG__MS)  /* for a guest's HELLO */
#define ASKED_NS    (60000 * RG__MS) /* for its PROOF: it may be stopped */
#define LEFT_NS     (1000 * RG__MS)  /* for the link that it came for */
#define DEAF_NS     (100 * RG__MS)
#define ACCEPTS     16
#define UNKNOWN_MAX 64
#define ASKED_MAX   1024

typedef enum guest_state {
    GUEST_UNKNOWN,
    GUEST_ASKED,  /* its HELLO was right, and ANSWER was sent */
    GUEST_PROVED, /* and so was its PROOF */
    GUEST_LEFT    /* it has hung up since */
} guest_state;

struct rg__guest {
    rg__watched watched;
    rg__net *net;
    rg__guest *next; /* newest first */
    guest_state state;
    uint64_t since_ns;
    char in[sizeof(rg__frame) + sizeof(rg__data_hello)];
    size_t in_at;
    rg__data_hello hello;
    uint8_t nonce[RG__NONCE_BYTES];
};

/* ----------------------------------------------------------------- messages */

/* Read a frame with a fixed body into `in`. IN_PROGRESS: it is incomplete;
 * ERR_INVALID: it is another frame, or the connection has ended. */
static rg_status read_message(int fd, char *in, size_t *at, rg__frame_kind kind,
                              size_t body)
{
    rg__frame head;
    while (*at < sizeof head + body) {
        const size_t want =
            *at < sizeof head ? sizeof head - *at : sizeof head + body - *at;
        const ssize_t got = recv(fd, in + *at, want, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return RG_IN_PROGRESS;
        if (got <= 0)
            return RG_ERR_INVALID;
        *at += (size_t)got;
        if (*at < sizeof head)
            continue;
        memcpy(&head, in, sizeof head);
        if (rg__frame_fault(&head) != NULL || head.kind != kind)
            return RG_ERR_INVALID;
    }
    return RG_OK;
}

/* The socket's buffer is empty: it takes all, or the connection is bad. */
static bool send_message(int fd, const rg__net *net, uint32_t set,
                         rg__frame_kind kind, const void *body, size_t bytes)
{
    char out[sizeof(rg__frame) + sizeof(rg__data_hello)];
    const rg__frame head = {.magic = FRAME_MAGIC,
                            .kind = (uint16_t)kind,
                            .generation = net->generation,
                            .set = set,
                            .bytes = (uint32_t)bytes};
    memcpy(out, &head, sizeof head);
    if (bytes > 0)
        memcpy(out + sizeof head, body, bytes);
    const ssize_t whole = (ssize_t)(sizeof head + bytes);
    return send(fd, out, (size_t)whole, MSG_NOSIGNAL | MSG_DONTWAIT) == whole;
}

/* --------------------------------------------------------------- connecting */

static void close_attempt(rg__link *l)
{
    if (l->watched.fd >= 0) {
        rg__net_unwatch(l->net, &l->watched);
        close(l->watched.fd);
    }
    l->watched.fd = -1;
    l->state = LINK_DOWN;
    l->greeting_at = 0;
}

static void try_later(rg__link *l, uint64_t now)
{
    close_attempt(l);
    l->again_ns = now + (AGAIN_NS << l->tries);
    if (l->tries < AGAIN_SHIFT)
        l->tries++;
}

static void attempt_failed(rg__link *l, const char *why, uint64_t now)
{
    const rg__place *place = &l->net->place[l->rank];
    if (l->failing_ns == 0)
        l->failing_ns = now;
    if (now - l->failing_ns > GIVE_UP_NS)
        rg__link_break(l, "connecting to %s port %u failed: %s",
                       l->net->address[place->host].text, place->port, why);
    else
        try_later(l, now);
}

static int open_socket(int family)
{
    const int type = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    const int fd = socket(family, type, 0);
    return fd < 0 && errno == EMFILE && rg__net_raise_files()
               ? socket(family, type, 0)
               : fd;
}

static const char *socket_fault(void)
{
    return errno == EMFILE ? "too many descriptors are open in this process; "
                             "give sets back, or raise ulimit -Hn"
                           : strerror(errno);
}

void rg__handshake_connect(rg__link *l, uint64_t now)
{
    if (l->state == LINK_CONNECTING) {
        attempt_failed(l, "no answer", now);
        return;
    }
    const rg__place *place = &l->net->place[l->rank];
    rg__inet at;
    if (!rg__inet_read(&l->net->address[place->host], place->port, &at)) {
        rg__link_break(l, "its host has no IP address");
        return;
    }
    l->watched.fd = open_socket(at.any.sa_family);
    l->state = LINK_CONNECTING;
    l->again_ns = now + ATTEMPT_NS;
    if (l->watched.fd < 0 ||
        (connect(l->watched.fd, &at.any, rg__inet_bytes(&at)) != 0 &&
         errno != EINPROGRESS))
        attempt_failed(l, socket_fault(), now);
    else
        rg__net_watch(l->net, &l->watched, EPOLLOUT);
}

static void send_hello(rg__link *l, uint64_t now)
{
    rg__net *net = l->net;
    rg__data_hello_body *who = &l->hello.body;
    *who = (rg__data_hello_body){.generation = net->generation,
                                 .from_id = net->member[net->rank],
                                 .to_id = net->member[l->rank],
                                 .from = net->rank,
                                 .to = l->rank,
                                 .set = l->set,
                                 .version = FRAME_VERSION};
    if (rg__random_bytes(who->nonce, sizeof who->nonce) != RG_OK) {
        attempt_failed(l, "no random numbers", now);
        return;
    }
    rg__mac_make(l->hello.mac, net->key, HELLO_LABEL, who, sizeof *who, NULL,
                 0);
    l->state = LINK_GREETING;
    rg__net_watch(net, &l->watched, EPOLLIN);
    if (!send_message(l->watched.fd, net, l->set, FRAME_HELLO, &l->hello,
                      sizeof l->hello))
        attempt_failed(l, strerror(errno), now);
}

static void on_connected(rg__link *l, uint64_t now)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(l->watched.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    if (error != 0)
        attempt_failed(l, strerror(error), now);
    else
        send_hello(l, now);
}

/* Did the peer answer that it is still in an earlier generation? */
static bool is_later(const rg__link *l)
{
    rg__frame head;
    memcpy(&head, l->greeting, sizeof head);
    return l->greeting_at == sizeof head && head.magic == FRAME_MAGIC &&
           head.kind == FRAME_LATER;
}

static void prove(rg__link *l, uint64_t now)
{
    rg__net *net = l->net;
    rg__data_answer a;
    rg__data_proof p;
    memcpy(&a, l->greeting + sizeof(rg__frame), sizeof a);
    if (!rg__mac_is(a.mac, net->key, ANSWER_LABEL, &l->hello, sizeof l->hello,
                    a.nonce, sizeof a.nonce)) {
        attempt_failed(l, "its listener does not know the job's key", now);
        return;
    }
    rg__mac_make(p.mac, net->key, PROOF_LABEL, &l->hello, sizeof l->hello,
                 a.nonce, sizeof a.nonce);
    if (send_message(l->watched.fd, net, l->set, FRAME_PROOF, &p, sizeof p))
        rg__link_up(l, l->watched.fd);
    else
        attempt_failed(l, strerror(errno), now);
}

static void read_answer(rg__link *l, uint64_t now)
{
    const rg_status st =
        read_message(l->watched.fd, l->greeting, &l->greeting_at, FRAME_ANSWER,
                     sizeof(rg__data_answer));
    if (st == RG_OK) {
        prove(l, now);
    } else if (is_later(l)) {
        l->failing_ns = 0;
        try_later(l, now);
    } else if (st != RG_IN_PROGRESS) {
        attempt_failed(l, "it closed the connection", now);
    }
}

void rg__handshake_greet(rg__link *l)
{
    const uint64_t now = rg__now_ns();
    if (l->state == LINK_CONNECTING)
        on_connected(l, now);
    if (l->state == LINK_GREETING)
        read_answer(l, now);
}

/* ------------------------------------------------------------------- guests */

static void unlink_guest(rg__guest *g)
{
    rg__guest **at = &g->net->guests;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    g->net->guest_count[g->state]--;
}

static void drop_guest(rg__guest *g, const char *why)
{
    if (why != NULL)
        rg__log(RG__DEBUG, "transport", "a connection was refused: %s", why);
    unlink_guest(g);
    rg__net_unwatch(g->net, &g->watched);
    close(g->watched.fd);
    free(g);
}

static void drop_oldest(rg__net *net, guest_state state, const char *why)
{
    rg__guest *oldest = NULL;
    for (rg__guest *g = net->guests; g != NULL; g = g->next)
        if (g->state == state)
            oldest = g;
    if (oldest != NULL)
        drop_guest(oldest, why);
}

static void enter_state(rg__guest *g, guest_state state)
{
    g->net->guest_count[g->state]--;
    g->net->guest_count[state]++;
    g->state = state;
    g->in_at = 0;
}

static void add_guest(rg__net *net, int fd, uint64_t now)
{
    rg__guest *g = calloc(1, sizeof *g);
    if (g == NULL) {
        close(fd);
        return;
    }
    if (net->guest_count[GUEST_UNKNOWN] >= UNKNOWN_MAX)
        drop_oldest(net, GUEST_UNKNOWN, "too many that send nothing");
    g->watched = (rg__watched){WATCHED_GUEST, fd, NOT_WATCHED};
    g->net = net;
    g->since_ns = now;
    g->next = net->guests;
    net->guests = g;
    net->guest_count[GUEST_UNKNOWN]++;
    rg__net_watch(net, &g->watched, EPOLLIN);
    rg__handshake_guest(g); /* it may have sent everything already */
}

/* No descriptor is left: close a stranger's connection, or else stop listening
 * for a while, so that no thread is woken for nothing. */
static void on_no_descriptor(rg__net *net, uint64_t now)
{
    if (errno == EMFILE && rg__net_raise_files())
        return; /* the next look accepts it */
    if (net->guest_count[GUEST_UNKNOWN] > 0) {
        drop_oldest(net, GUEST_UNKNOWN, "no descriptors left");
        return;
    }
    rg__log(RG__WARN, "transport", "connections can't be accepted: %s",
            socket_fault());
    rg__net_watch(net, &net->listener, 0);
    net->deaf_until_ns = now + DEAF_NS;
}

void rg__handshake_accept(rg__net *net, uint64_t now)
{
    for (int i = 0; i < ACCEPTS; i++) {
        const int fd =
            accept4(net->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            add_guest(net, fd, now);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                   errno == ENOMEM) {
            on_no_descriptor(net, now);
            return;
        }
    }
}

/* What is wrong with a HELLO; NULL: a member is to connect to me so. */
static const char *hello_fault(const rg__net *net, const rg__data_hello *h)
{
    const rg__data_hello_body *who = &h->body;
    if (!rg__mac_is(h->mac, net->key, HELLO_LABEL, who, sizeof *who, NULL, 0))
        return "it does not know the job's key";
    if (who->version != FRAME_VERSION)
        return "its library has another version";
    if (who->generation != net->generation)
        return "it is in another generation";
    if (who->to != net->rank ||
        !rg__same_member(who->to_id, net->member[net->rank]))
        return "it wants another worker";
    const bool connects = who->set == RG__SET_MESSAGES
                              ? who->from < net->size && who->from != net->rank
                              : who->from < net->rank;
    if (who->from < 0 || !connects ||
        !rg__same_member(who->from_id, net->member[who->from]))
        return "it is not a member of this generation";
    return NULL;
}

static void on_hello(rg__guest *g)
{
    rg__net *net = g->net;
    rg__data_answer a;
    memcpy(&g->hello, g->in + sizeof(rg__frame), sizeof g->hello);
    const rg__data_hello_body *who = &g->hello.body;
    const char *fault = hello_fault(net, &g->hello);
    if (fault != NULL) {
        if (who->generation > net->generation)
            send_message(g->watched.fd, net, who->set, FRAME_LATER, NULL, 0);
        drop_guest(g, fault);
        return;
    }
    rg__random_bytes(g->nonce, sizeof g->nonce);
    memcpy(a.nonce, g->nonce, sizeof a.nonce);
    rg__mac_make(a.mac, net->key, ANSWER_LABEL, &g->hello, sizeof g->hello,
                 a.nonce, sizeof a.nonce);
    if (!send_message(g->watched.fd, net, who->set, FRAME_ANSWER, &a,
                      sizeof a)) {
        drop_guest(g, "it reads nothing");
        return;
    }
    if (net->guest_count[GUEST_ASKED] >= ASKED_MAX)
        drop_oldest(net, GUEST_ASKED, "too many that prove nothing");
    enter_state(g, GUEST_ASKED);
    rg__handshake_guest(g);
}

/* The guest's socket becomes the link's; nothing behind the proof is read. */
static void seat(rg__guest *g, rg__link *l)
{
    const int fd = g->watched.fd;
    rg__net_unwatch(g->net, &g->watched);
    unlink_guest(g);
    free(g);
    rg__link_up(l, fd);
}

static bool is_for(const rg__guest *g, uint32_t set, int rank)
{
    return g->hello.body.set == set && g->hello.body.from == rank;
}

static rg__link *find_link(const rg__net *net, const rg__guest *g)
{
    for (rg__link *l = net->links; l != NULL; l = l->next)
        if (!l->connects && is_for(g, l->set, l->rank))
            return l;
    return NULL;
}

static void on_proof(rg__guest *g)
{
    rg__net *net = g->net;
    rg__data_proof p;
    memcpy(&p, g->in + sizeof(rg__frame), sizeof p);
    if (!rg__mac_is(p.mac, net->key, PROOF_LABEL, &g->hello, sizeof g->hello,
                    g->nonce, sizeof g->nonce)) {
        drop_guest(g, "it does not know the job's key");
        return;
    }
    enter_state(g, GUEST_PROVED);
    rg__net_watch(net, &g->watched, EPOLLRDHUP); /* its data are for the link */
    rg__link *l = find_link(net, g);
    if (l != NULL && l->state != LINK_DOWN)
        drop_guest(g, "its link has a connection");
    else if (l != NULL)
        seat(g, l);
    else if (g->hello.body.set == RG__SET_MESSAGES)
        rg__link_accept_messages(net, g->hello.body.from);
}

static void on_hang_up(rg__guest *g)
{
    enter_state(g, GUEST_LEFT);
    g->since_ns = rg__now_ns();
    rg__net_unwatch(g->net, &g->watched);
}

void rg__handshake_guest(rg__guest *g)
{
    if (g->state == GUEST_PROVED) {
        on_hang_up(g);
        return;
    }
    const bool is_new = g->state == GUEST_UNKNOWN;
    const rg_status st = read_message(
        g->watched.fd, g->in, &g->in_at, is_new ? FRAME_HELLO : FRAME_PROOF,
        is_new ? sizeof(rg__data_hello) : sizeof(rg__data_proof));
    if (st == RG_IN_PROGRESS)
        return;
    if (st != RG_OK)
        drop_guest(g, "it does not speak the protocol of workers");
    else if (is_new)
        on_hello(g);
    else
        on_proof(g);
}

void rg__handshake_turn_out(rg__net *net, uint64_t now)
{
    for (rg__guest *g = net->guests, *next; g != NULL; g = next) {
        next = g->next;
        const uint64_t been = now - g->since_ns;
        if ((g->state == GUEST_UNKNOWN && been > UNKNOWN_NS) ||
            (g->state == GUEST_ASKED && been > ASKED_NS))
            drop_guest(g, "it says nothing");
        else if (g->state == GUEST_LEFT && been > LEFT_NS)
            drop_guest(g, "it has come for a set that is not here");
    }
}

void rg__handshake_find(rg__link *l)
{
    for (rg__guest *g = l->net->guests; g != NULL; g = g->next)
        if (g->state >= GUEST_PROVED && is_for(g, l->set, l->rank)) {
            seat(g, l);
            return;
        }
}

void rg__handshake_drop_all(rg__net *net)
{
    while (net->guests != NULL)
        drop_guest(net->guests, NULL);
}
