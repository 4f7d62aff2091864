/* A link that is given back says BYE only after a complete frame: in the middle
 * of one the peer would take it for data.
 *
 * Covers: link.c net.c */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/transport/tcp/net.h"
#include "tests/check.h"

#define BODY ((uint32_t)(2 * RG__WORK_BYTES)) /* more than one flush sends */

static char body[BODY];

/* A link to rank 0 over a socket pair whose other end is *peer_p. */
static rg__link *open_link(rg__net *net, int *peer_p)
{
    int pair[2];
    rg__link *l = NULL;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    CHECK_OK(rg__link_create(net, 0, 0, &l));
    rg__link_up(l, pair[0]);
    *peer_p = pair[1];
    return l;
}

/* Everything that has come, and the last head if it came whole. */
static size_t take_all(int sock, rg__frame *last_p)
{
    static char in[sizeof(rg__frame) + BODY + 1];
    size_t n = 0;
    ssize_t got;
    while ((got = read(sock, in + n, sizeof in - n)) > 0)
        n += (size_t)got;
    CHECK_EQ(got, 0); /* it is closed */
    if (n >= sizeof *last_p)
        memcpy(last_p, in + n - sizeof *last_p, sizeof *last_p);
    close(sock);
    return n;
}

static void between_frames(rg__net *net)
{
    int peer = -1;
    rg__frame last = {0};
    rg__link_destroy(open_link(net, &peer));
    CHECK_EQ(take_all(peer, &last), sizeof last);
    CHECK_EQ(last.kind, FRAME_BYE);
    CHECK_EQ(last.generation, net->generation);
}

static void within_a_frame(rg__net *net)
{
    int peer = -1;
    rg__frame last = {0};
    rg__link *l = open_link(net, &peer);
    rg__link_begin(l, (rg__frame){.kind = FRAME_DATA, .bytes = BODY});
    const size_t sent = rg__link_flush(l, body);
    CHECK(sent > sizeof(rg__frame) && l->is_sending);
    static char some[RG__WORK_BYTES / 2]; /* there is room for a BYE */
    const ssize_t taken = read(peer, some, sizeof some);
    CHECK(taken > 0);
    rg__link_destroy(l);
    CHECK_EQ((size_t)taken + take_all(peer, &last), sent);
}

int main(void)
{
    rg__net net = {.generation = 3, .rank = 1, .epoll = -1};
    between_frames(&net);
    within_a_frame(&net);
    return 0;
}
