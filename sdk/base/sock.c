#include "sdk/base/sock.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/wire.h"

typedef union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int) * RG__SOCK_FDS)];
} control;

rg_status rg__sock_connect(const char *path, const char *remedy, int *sock_p)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof to.sun_path)
        return rg__fail(RG_ERR_INVALID,
                        RG__ENV_SOCKET " is longer than the %zu bytes of a "
                                       "socket's path; was it edited?",
                        sizeof to.sun_path - 1);
    strcpy(to.sun_path, path);
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return rg__fail(RG_ERR_SYSTEM, "a socket can't be made: %s",
                        strerror(errno));
    if (connect(sock, (struct sockaddr *)&to, sizeof to) != 0) {
        const int cause = errno;
        close(sock);
        return rg__fail(RG_ERR_AGENT_LOST,
                        "the agent at %s can't be reached: %s%s", path,
                        strerror(cause), remedy);
    }
    *sock_p = sock;
    return RG_OK;
}

rg_status rg__sock_send(int sock, const void *bytes, size_t n, const int *fds,
                        int fd_count)
{
    control room;
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        const size_t fd_bytes = sizeof(int) * (size_t)fd_count;
        memset(&room, 0, sizeof room);
        msg.msg_control = room.bytes;
        msg.msg_controllen = CMSG_SPACE(fd_bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_bytes);
        memcpy(CMSG_DATA(c), fds, fd_bytes);
    }
    for (;;) {
        if (sendmsg(sock, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return RG_OK;
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
            return RG_IN_PROGRESS;
        return rg__fail(RG_ERR_AGENT_LOST, "the worker-agent socket broke: %s",
                        strerror(errno));
    }
}

static void take_fds(struct msghdr *msg, int fds[RG__SOCK_FDS])
{
    int n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL;
         c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof fd);
            if (n < RG__SOCK_FDS)
                fds[n++] = fd;
            else
                close(fd);
        }
    }
}

void rg__sock_close_fds(int fds[RG__SOCK_FDS])
{
    for (int i = 0; i < RG__SOCK_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

static ssize_t receive(int sock, struct msghdr *msg, control *room)
{
    ssize_t got;
    do {
        msg->msg_control = room->bytes;
        msg->msg_controllen = sizeof room->bytes;
        got = recvmsg(sock, msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    return got;
}

/* A reset is reported before what is queued, once; and the kernel reports an
 * end too early if the last message and the close come while it looks. Nothing
 * can come after an end, so a second look settles it. */
static ssize_t receive_to_the_end(int sock, struct msghdr *msg, control *room)
{
    ssize_t got = receive(sock, msg, room);
    for (int i = 0; i < 2 && (got == 0 || (got < 0 && errno == ECONNRESET));
         i++)
        got = receive(sock, msg, room);
    return got;
}

rg_status rg__sock_recv(int sock, void *bytes, size_t max, size_t *n_p,
                        int fds[RG__SOCK_FDS])
{
    for (int i = 0; i < RG__SOCK_FDS; i++)
        fds[i] = -1;
    control room;
    struct iovec part = {.iov_base = bytes, .iov_len = max};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
    const ssize_t got = receive_to_the_end(sock, &msg, &room);
    if (got < 0 && errno == EAGAIN)
        return RG_IN_PROGRESS;
    if (got <= 0)
        return rg__fail(RG_ERR_AGENT_LOST, "the worker-agent socket closed%s%s",
                        got < 0 ? ": " : "", got < 0 ? strerror(errno) : "");
    take_fds(&msg, fds);
    if (msg.msg_flags & MSG_TRUNC) {
        rg__sock_close_fds(fds);
        return rg__fail(RG_ERR_INVALID, "a message of over %zu bytes arrived",
                        max);
    }
    *n_p = (size_t)got;
    return RG_OK;
}
