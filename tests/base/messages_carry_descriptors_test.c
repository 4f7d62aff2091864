/* One packet is one message with up to three descriptors; a full queue, a
 * closed peer and a message that is too large are told apart, and no descriptor
 * is leaked on the way.
 *
 * Covers: sock.c */
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/sock.h"
#include "tests/check.h"
#include "tests/lib/descriptors.h"

static void check_descriptors(const int *pair)
{
    char text[64], byte = 0;
    size_t n = 0;
    int ends[3], got[RG__SOCK_FDS];
    CHECK_EQ(pipe(ends), 0);
    ends[2] = dup(ends[0]);
    CHECK_OK(rg__sock_send(pair[0], "hello", 6, ends, 3));
    CHECK_OK(rg__sock_recv(pair[1], text, sizeof text, &n, got));
    CHECK_EQ(n, 6);
    CHECK_STR(text, "hello");
    CHECK_EQ(write(got[1], "x", 1), 1);
    CHECK_EQ(read(ends[0], &byte, 1), 1);
    CHECK_EQ(byte, 'x');
    for (int i = 0; i < 3; i++) {
        close(ends[i]);
        close(got[i]);
    }

    CHECK_OK(rg__sock_send(pair[0], "one", 4, &pair[0], 1));
    CHECK_OK(rg__sock_send(pair[0], "none", 5, NULL, 0));
    CHECK_OK(rg__sock_recv(pair[1], text, sizeof text, &n, got));
    CHECK(got[0] >= 0 && got[1] == -1);
    close(got[0]);
    CHECK_OK(rg__sock_recv(pair[1], text, sizeof text, &n, got));
    CHECK(got[0] == -1 && got[1] == -1);
    CHECK_STR(text, "none");
    CHECK_STATUS(rg__sock_recv(pair[1], text, sizeof text, &n, got),
                 RG_IN_PROGRESS);
}

static void check_too_large(const int *pair)
{
    char text[8];
    size_t n = 0;
    int got[RG__SOCK_FDS];
    const int before = descriptors();
    CHECK_OK(rg__sock_send(pair[0], "much too large", 15, pair, 2));
    CHECK_STATUS(rg__sock_recv(pair[1], text, sizeof text, &n, got),
                 RG_ERR_INVALID);
    CHECK(got[0] == -1 && got[1] == -1);
    CHECK_EQ(descriptors(), before);
}

static void check_full_and_closed(int *pair)
{
    char text[1024] = "", back[1024];
    size_t n = 0;
    int got[RG__SOCK_FDS], sent = 0, received = 0;
    rg_status st = RG_OK;
    while ((st = rg__sock_send(pair[0], text, sizeof text, NULL, 0)) == RG_OK)
        CHECK(++sent < 1000000);
    CHECK_EQ(st, RG_IN_PROGRESS);
    CHECK(sent > 0);
    close(pair[0]);
    while ((st = rg__sock_recv(pair[1], back, sizeof back, &n, got)) == RG_OK)
        received++;
    CHECK_EQ(st, RG_ERR_AGENT_LOST);
    CHECK_EQ(received, sent);
    CHECK_STATUS(rg__sock_send(pair[1], text, 1, NULL, 0), RG_ERR_AGENT_LOST);
    close(pair[1]);
}

/* Closing with unread data resets the connection; what that side had said
 * before is read all the same. */
static void check_reset(int *pair)
{
    char text[8];
    size_t n = 0;
    int got[RG__SOCK_FDS];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    CHECK_OK(rg__sock_send(pair[1], "unread", 7, NULL, 0));
    CHECK_OK(rg__sock_send(pair[0], "last", 5, NULL, 0));
    close(pair[0]);
    CHECK_OK(rg__sock_recv(pair[1], text, sizeof text, &n, got));
    CHECK_STR(text, "last");
    CHECK_STATUS(rg__sock_recv(pair[1], text, sizeof text, &n, got),
                 RG_ERR_AGENT_LOST);
    close(pair[1]);
}

int main(void)
{
    int pair[2];
    const int before = descriptors();
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    check_descriptors(pair);
    check_too_large(pair);
    check_full_and_closed(pair);
    check_reset(pair);
    CHECK_EQ(descriptors(), before);
    return 0;
}
