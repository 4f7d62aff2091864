#include "elastic/agent/base/file_writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/fail.h"

/* The smallest of them that is at least `low`; ~0: none. */
static unsigned next_of(const int *fd, int n, unsigned low)
{
    unsigned next = ~0u;
    for (int i = 0; i < n; i++)
        if ((unsigned)fd[i] >= low && (unsigned)fd[i] < next)
            next = (unsigned)fd[i];
    return next;
}

void rg__writer_close_others(int sock, const int *keep, int n)
{
    unsigned low = STDERR_FILENO + 1;
    while (low != 0) {
        const unsigned own = next_of(&sock, 1, low),
                       kept = next_of(keep, n, low);
        const unsigned next = own < kept ? own : kept;
        if (next > low)
            close_range(low, next == ~0u ? next : next - 1, 0);
        low = next + 1;
    }
}

rg_status rg__writer_start(const char *what, rg__writer_fn fn, const void *arg,
                           const int *keep, int n, int *sock_p, pid_t *pid_p)
{
    int pair[2];
    sigset_t all;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return rg__fail(RG_ERR_SYSTEM, "no socket for %s: %s", what,
                        strerror(errno));
    *sock_p = pair[0];
    *pid_p = fork();
    if (*pid_p == 0) {
        sigfillset(&all); /* a signal to the job's processes means the others */
        sigprocmask(SIG_SETMASK, &all, NULL);
        rg__writer_close_others(pair[1], keep, n);
        _exit(fn(pair[1], arg));
    }
    close(pair[1]);
    return *pid_p > 0 ? RG_OK
                      : rg__fail(RG_ERR_SYSTEM, "no process for %s: %s", what,
                                 strerror(errno));
}

size_t rg__writer_next(int sock, void *message, size_t room)
{
    ssize_t got;
    do
        got = recv(sock, message, room, 0);
    while (got < 0 && errno == EINTR);
    return got > 0 ? (size_t)got : 0;
}

char *rg__writer_path(const rg__agent_params *params, const char *given)
{
    char *path = NULL;
    const char *dot = strrchr(given, '.'), *slash = strrchr(given, '/');
    const size_t stem = dot != NULL && (slash == NULL || dot > slash)
                            ? (size_t)(dot - given)
                            : strlen(given);
    const int n = params->is_one_host
                      ? asprintf(&path, "%s", given)
                      : asprintf(&path, "%.*s.%s%s", (int)stem, given,
                                 params->host, given + stem);
    return n < 0 ? NULL : path;
}
