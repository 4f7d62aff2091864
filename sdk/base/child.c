#include "sdk/base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

bool rg__is_program(const char *path)
{
    struct stat at;
    return stat(path, &at) == 0 && S_ISREG(at.st_mode) &&
           access(path, X_OK) == 0;
}

bool rg__find_in_path(const char *name, char *path, size_t bytes)
{
    const char *part = getenv("PATH"); /* not ours: no setting */
    while (part != NULL && *part != '\0') {
        const int n = (int)strcspn(part, ":");
        const int length = snprintf(path, bytes, "%.*s/%s", n > 0 ? n : 1,
                                    n > 0 ? part : ".", name);
        if (length > 0 && (size_t)length < bytes && rg__is_program(path))
            return true;
        part += n + (part[n] == ':');
    }
    return false;
}

void rg__child_follow(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1); /* it died before it could be watched */
}

void rg__child_unset(bool (*is_such)(const char *name))
{
    for (char **v = environ; *v != NULL;) {
        char name[128] = "";
        const size_t n = strcspn(*v, "=");
        if (n < sizeof name && (*v)[n] == '=')
            memcpy(name, *v, n);
        if (!is_such(name) || unsetenv(name) != 0)
            v++;
    }
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

/* A pipe that has taken its place is not waited for. */
static bool is_elf(const char *path)
{
    char head[4] = "";
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const bool is_read = fd >= 0 && read(fd, head, sizeof head) > 0;
    if (fd >= 0)
        close(fd);
    return is_read && memcmp(head, "\177ELF", sizeof head) == 0;
}

/* What the kernel can't run, execvp gives to a shell: a program of another
 * machine would be read as a script. */
void rg__child_run(char *const *argv)
{
    char found[PATH_MAX];
    const char *path = argv[0];
    if (strchr(path, '/') == NULL)
        path = rg__find_in_path(path, found, sizeof found) ? found : "";
    if (is_elf(path))
        execv(path, argv);
    else
        execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "regroup: %s can't be run: %s\n", argv[0],
            strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}
