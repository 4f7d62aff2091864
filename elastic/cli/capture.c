/* Commands that say something about themselves, and end. */
#include "elastic/cli/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/child.h"
#include "sdk/base/clock.h"

#define LIMIT_NS (10000 * RG__MS)

static void run(char *const *argv, int out)
{
    rg__child_ready(-1, out, -1);
    execvp(argv[0], argv);
    _exit(127);
}

/* To its end; bytes without room are read and dropped. */
static bool read_all(int from, char *text, size_t bytes)
{
    const uint64_t until = rg__now_ns() + LIMIT_NS;
    char more[512];
    size_t used = 0;
    for (;;) {
        const uint64_t now = rg__now_ns();
        struct pollfd ready = {.fd = from, .events = POLLIN};
        if (now >= until ||
            poll(&ready, 1, (int)((until - now) / RG__MS) + 1) == 0)
            return false;
        const ssize_t n = read(from, more, sizeof more);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        for (ssize_t i = 0; i < n && used + 1 < bytes; i++)
            text[used++] = more[i];
        text[used] = '\0';
    }
}

bool rg__capture(char *const *argv, char *text, size_t bytes)
{
    int ends[2], status = 0;
    text[0] = '\0';
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    const pid_t pid = fork();
    if (pid == 0)
        run(argv, ends[1]);
    close(ends[1]);
    const bool is_read = pid > 0 && read_all(ends[0], text, bytes);
    close(ends[0]);
    if (pid < 0)
        return false;
    if (!is_read)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return is_read && !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}
