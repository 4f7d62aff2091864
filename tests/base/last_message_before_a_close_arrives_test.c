/* The last message before a close arrives, also where both come while the
 * other end is looking: Linux then reports the end first, a few times in
 * a hundred thousand; here each time. A socket that has ended is still at its
 * end.
 *
 * Covers: sock.c */
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sdk/base/sock.h"
#include "tests/check.h"

static int peer = -1; /* whose end comes amid the next look */
static const char *last;

/* In place of the C library's: nothing is there when it looks, and then the
 * peer has closed. */
ssize_t recvmsg(int sock, struct msghdr *msg, int flags)
{
    if (peer < 0)
        return syscall(SYS_recvmsg, sock, msg, flags);
    if (last != NULL)
        CHECK_OK(rg__sock_send(peer, last, 1, NULL, 0));
    close(peer);
    peer = -1;
    return 0;
}

static rg_status look(const char *what, char *got)
{
    int ends[2], fds[RG__SOCK_FDS];
    size_t n = 0;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    CHECK_EQ(rg__sock_recv(ends[0], got, 1, &n, fds), RG_IN_PROGRESS);
    peer = ends[1];
    last = what;
    const rg_status st = rg__sock_recv(ends[0], got, 1, &n, fds);
    CHECK_EQ(n, st == RG_OK);
    close(ends[0]);
    return st;
}

int main(void)
{
    char got = 0;
    CHECK_OK(look("x", &got));
    CHECK_EQ(got, 'x');
    CHECK_EQ(look(NULL, &got), RG_ERR_AGENT_LOST);
    return 0;
}
