#include "sdk/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

void rg__child_follow(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before it could be watched */
}

static void give(int fd, int to)
{
    const int from = fd >= 0 ? fd : open("/dev/null", O_RDWR);
    if (from >= 0 && from != to)
        dup2(from, to);
}

void rg__child_ready(int in, int out, int err)
{
    sigset_t none;
    give(in, STDIN_FILENO);
    give(out, STDOUT_FILENO);
    give(err, STDERR_FILENO);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    close_range(STDERR_FILENO + 1, ~0u, CLOSE_RANGE_CLOEXEC);
}

void rg__child_run(char *const *argv)
{
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "regroup: %s can't be run: %s\n", argv[0],
            strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}
