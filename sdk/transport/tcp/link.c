/* Frames over one connection. */
#include "sdk/transport/tcp/net.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define WHY_MAX  160
#define STUCK_MS 250

/* --------------------------------------------------------------------- life */

static rg_status create(rg__net *net, uint32_t set, int rank, bool connects,
                        rg__link **link_p)
{
    rg__link *l = calloc(1, sizeof *l);
    if (l == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a connection");
    l->watched = (rg__watched){WATCHED_LINK, -1, NOT_WATCHED};
    l->net = net;
    l->set = set;
    l->rank = rank;
    l->connects = connects;
    l->trying_ns = rg__now_ns();
    l->next = net->links;
    net->links = l;
    *link_p = l;
    if (connects)
        rg__handshake_connect(l, rg__now_ns());
    else
        rg__handshake_find(l);
    return RG_OK;
}

rg_status rg__link_create(rg__net *net, uint32_t set, int rank,
                          rg__link **link_p)
{
    return create(net, set, rank, net->rank < rank, link_p);
}

rg__link *rg__link_for_messages(rg__net *net, int rank)
{
    if (net->message_out[rank] == NULL)
        create(net, RG__SET_MESSAGES, rank, true, &net->message_out[rank]);
    return net->message_out[rank];
}

void rg__link_accept_messages(rg__net *net, int rank)
{
    create(net, RG__SET_MESSAGES, rank, false, &net->message_in[rank]);
}

/* Unread input would make the kernel reset the connection, and the peer may
 * then miss what we sent. */
static void send_bye(rg__link *l)
{
    const rg__frame bye = {.magic = FRAME_MAGIC,
                           .kind = FRAME_BYE,
                           .index = l->net->is_ending,
                           .generation = l->net->generation,
                           .set = l->set};
    if (l->state == LINK_UP && !l->is_sending)
        (void)!send(l->watched.fd, &bye, sizeof bye,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void drop_socket(rg__link *l)
{
    if (l->watched.fd < 0)
        return;
    rg__net_unwatch(l->net, &l->watched);
    close(l->watched.fd);
    l->watched.fd = -1;
}

void rg__link_destroy(rg__link *l)
{
    if (l == NULL)
        return;
    send_bye(l);
    drop_socket(l);
    rg__link **at = &l->net->links;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    free(l);
}

void rg__link_up(rg__link *l, int fd)
{
    const int one = 1;
    char congestion[16] = "";
    socklen_t bytes = sizeof congestion;
    getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, &bytes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    l->watched.fd = fd;
    l->state = LINK_UP;
    l->wants = EPOLLIN; /* until its operation has looked */
    rg__log(RG__DEBUG, "transport", "set %u is connected with rank %d, by %s",
            l->set, l->rank, congestion);
}

/* How many bytes the kernel is sending again because no acknowledgement came. A
 * closed window does not count, because the receiver's kernel answers. */
static uint64_t unacked(const rg__link *l)
{
    struct tcp_info info;
    socklen_t n = sizeof info;
    int waiting = 0;
    if (l->state != LINK_UP ||
        getsockopt(l->watched.fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0 ||
        info.tcpi_unacked == 0 || info.tcpi_retransmits == 0 ||
        ioctl(l->watched.fd, SIOCOUTQ, &waiting) != 0 || waiting <= 0)
        return 0;
    return (uint64_t)waiting;
}

/* An acknowledgement of older data comes with whatever the peer sends: only
 * bytes that leave the queue show that something gets through. */
rg__link_wait rg__link_look(rg__link *l, uint64_t now)
{
    if (!rg__link_is_settled(l))
        return (rg__link_wait){.is_stuck =
                                   now - l->trying_ns > STUCK_MS * RG__MS};
    const uint64_t bytes = unacked(l), acked = l->written - bytes;
    if (bytes == 0 || acked != l->acked || l->waits_ns == 0)
        l->waits_ns = bytes == 0 ? 0 : now;
    l->acked = acked;
    const uint64_t waited_ms =
        l->waits_ns == 0 ? 0 : (now - l->waits_ns) / RG__MS;
    return (rg__link_wait){.is_stuck = waited_ms > STUCK_MS / 2,
                           .bytes = bytes,
                           .waited_ms = waited_ms};
}

void rg__link_break(rg__link *l, const char *format, ...)
{
    rg__net *net = l->net;
    char why[WHY_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (l->state == LINK_BROKEN)
        return;
    drop_socket(l);
    l->state = LINK_BROKEN;
    rg__log(RG__DEBUG, "transport", "the link to rank %d broke: %s", l->rank,
            why);
    if (net->broken_ns != 0)
        return;
    net->broken_ns = rg__now_ns();
    net->broken_rank = l->rank;
    snprintf(net->broken_why, sizeof net->broken_why, "%s", why);
}

/* ------------------------------------------------------------------ sending */

void rg__link_begin(rg__link *l, rg__frame head)
{
    head.magic = FRAME_MAGIC;
    head.generation = l->net->generation;
    head.set = l->set;
    l->out = head;
    l->out_at = 0;
    l->is_sending = true;
}

static void on_send_failed(rg__link *l)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        l->wants |= EPOLLOUT;
    else
        rg__link_break(l, "sending to it failed: %s", strerror(errno));
}

size_t rg__link_flush(rg__link *l, const void *body)
{
    if (l->state != LINK_UP || !l->is_sending || (l->wants & EPOLLOUT) != 0)
        return 0;
    const size_t whole = sizeof l->out + l->out.bytes;
    struct iovec parts[2];
    int n = 0;
    if (l->out_at < sizeof l->out)
        parts[n++] = (struct iovec){(char *)&l->out + l->out_at,
                                    sizeof l->out - l->out_at};
    if (l->out.bytes > 0) {
        const size_t sent =
            l->out_at < sizeof l->out ? 0 : l->out_at - sizeof l->out;
        size_t left = l->out.bytes - sent;
        if (left > RG__WORK_BYTES)
            left = RG__WORK_BYTES;
        parts[n++] = (struct iovec){(char *)(uintptr_t)body + sent, left};
    }
    const struct msghdr m = {.msg_iov = parts, .msg_iovlen = (size_t)n};
    const ssize_t sent =
        sendmsg(l->watched.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        on_send_failed(l);
        return 0;
    }
    l->out_at += (size_t)sent;
    l->written += (size_t)sent;
    l->is_sending = l->out_at < whole;
    return (size_t)sent;
}

/* ------------------------------------------------------------------ reading */

/* Fill `to` first, and put what follows into the link's own buffer, which must
 * be empty if n > 0. Returns how many bytes went to `to`. */
static size_t receive(rg__link *l, void *to, size_t n)
{
    if ((l->wants & EPOLLIN) != 0)
        return 0;
    if (l->in_begin == l->in_end)
        l->in_begin = l->in_end = 0;
    struct iovec parts[2] = {{to, n},
                             {l->in + l->in_end, sizeof l->in - l->in_end}};
    const struct msghdr m = {.msg_iov = n > 0 ? parts : parts + 1,
                             .msg_iovlen = n > 0 ? 2 : 1};
    const ssize_t got =
        recvmsg(l->watched.fd, (struct msghdr *)(uintptr_t)&m, MSG_DONTWAIT);
    if (got > 0) {
        const size_t mine = (size_t)got < n ? (size_t)got : n;
        l->in_end += (size_t)got - mine;
        return mine;
    }
    if (got == 0)
        rg__link_break(l, "it closed the connection");
    else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)
        l->wants |= EPOLLIN;
    else
        rg__link_break(l, "reading from it failed: %s", strerror(errno));
    return 0;
}

static size_t take_in(rg__link *l, void *to, size_t n)
{
    const size_t here = l->in_end - l->in_begin;
    const size_t now = here < n ? here : n;
    rg__copy(to, l->in + l->in_begin, now);
    l->in_begin += now;
    return now;
}

static void make_room(rg__link *l)
{
    memmove(l->in, l->in + l->in_begin, l->in_end - l->in_begin);
    l->in_end -= l->in_begin;
    l->in_begin = 0;
}

static bool is_head_here(const rg__link *l)
{
    return l->in_end - l->in_begin >= sizeof(rg__frame);
}

static const rg__frame *take_head(rg__link *l)
{
    take_in(l, &l->head, sizeof l->head);
    const char *fault = rg__frame_fault(&l->head);
    if (fault == NULL && l->head.generation != l->net->generation)
        fault = "a frame of another generation";
    if (fault == NULL && l->head.set != l->set)
        fault = "a frame of another set";
    if (fault != NULL) {
        rg__link_break(l, "it sent %s", fault);
        return NULL;
    }
    if (l->head.kind == FRAME_BYE) {
        drop_socket(l);
        l->state = LINK_LEFT;
        l->has_ended = l->head.index != 0;
        return NULL;
    }
    l->has_head = true;
    l->body_left = l->head.bytes;
    return &l->head;
}

const rg__frame *rg__link_head(rg__link *l)
{
    if (l->has_head)
        return &l->head;
    if (l->state != LINK_UP)
        return NULL;
    if (!is_head_here(l)) {
        make_room(l);
        receive(l, NULL, 0);
    }
    return l->state == LINK_UP && is_head_here(l) ? take_head(l) : NULL;
}

size_t rg__link_read(rg__link *l, void *to, size_t n)
{
    if (n > l->body_left)
        n = l->body_left;
    if (n > RG__WORK_BYTES)
        n = RG__WORK_BYTES;
    size_t got = take_in(l, to, n);
    if (got == 0 && n > 0 && l->state == LINK_UP)
        got = receive(l, to, n);
    l->body_left -= (uint32_t)got;
    if (l->body_left == 0)
        l->has_head = false;
    return got;
}

void rg__link_take(rg__link *l)
{
    l->has_head = false;
}
