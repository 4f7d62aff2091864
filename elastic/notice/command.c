/* command: a shell runs it, in a process group of its own. Exit code 0 is a
 * notice, and its output says more (texts.c); 1 is none, as of `test` and
 * `grep -q`; anything else is a failure. Processes that it leaves running
 * are killed. If it survives that, the next round checks it again and starts
 * no second one. */
#include "elastic/notice/notice_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/child.h"

#define OUTPUT_MAX 4096 /* of it is kept */

typedef struct child {
    pid_t pid;
    int pidfd, out; /* its end, and what it prints */
    size_t bytes;
    char text[OUTPUT_MAX + 1];
} child;

static void run(const char *command, int out)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    rg__child_ready(-1, out, out);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(126);
}

/* A process stuck in the kernel outlives SIGKILL: the loop does not wait. */
void rg__command_stop(rg__source *s)
{
    child *c = s->child;
    if (c == NULL)
        return;
    rg__loop_close(s->all->loop, &c->pidfd);
    rg__loop_close(s->all->loop, &c->out);
    if (c->pid > 0)
        kill(-c->pid, SIGKILL); /* not reaped, so the group is its own */
}

/* true: there is none, or its end has come. */
static bool free_child(rg__source *s)
{
    child *c = s->child;
    if (c != NULL && c->pid > 0 && waitpid(c->pid, NULL, WNOHANG) == 0)
        return false;
    free(c);
    s->child = NULL;
    return true;
}

void rg__command_close(rg__source *s)
{
    if (free_child(s))
        return;
    free(s->child); /* its end is left to the parent of this process */
    s->child = NULL;
}

/* ------------------------------------------------------------------ output */

/* Output beyond the room for it is read and dropped. */
static void on_output(void *arg, int fd, uint32_t events)
{
    rg__source *s = arg;
    child *c = s->child;
    char rest[OUTPUT_MAX];
    (void)events;
    const ssize_t n = read(fd, rest, sizeof rest);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            rg__loop_unwatch(s->all->loop, fd);
        return;
    }
    const size_t room = OUTPUT_MAX - c->bytes;
    const size_t taken = (size_t)n < room ? (size_t)n : room;
    memcpy(c->text + c->bytes, rest, taken);
    c->bytes += taken;
    c->text[c->bytes] = '\0';
}

static void end(rg__source *s, int status, char *text, size_t bytes)
{
    rg__notice notice = {.kind = RG__NOTICE_NONE};
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code == 0 && !rg__site_read_any(text, bytes, &notice)) {
        rg__source_fails(s, "the JSON that it prints is not a notice");
    } else if (code == 0 || code == 1) {
        rg__source_says(s, &notice);
    } else if (code < 0) {
        rg__source_fails(s, "it was ended by signal %d", WTERMSIG(status));
    } else {
        text[strcspn(text, "\r\n")] = '\0';
        rg__source_fails(s, "it ends with %d%s%.100s", code,
                         text[0] != '\0' ? ": " : "", text);
    }
}

static void on_end(void *arg, int fd, uint32_t events)
{
    rg__source *s = arg;
    child *c = s->child;
    char text[OUTPUT_MAX + 1];
    int status = 0;
    (void)fd, (void)events;
    on_output(s, c->out, 0); /* its last message */
    rg__command_stop(s);
    waitpid(c->pid, &status, 0);
    c->pid = 0;
    const size_t bytes = c->bytes;
    memcpy(text, c->text, bytes);
    text[bytes] = '\0';
    free_child(s);
    end(s, status, text, bytes);
}

/* ------------------------------------------------------------------- round */

static bool start(rg__source *s, child *c)
{
    int out[2];
    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    c->out = out[0];
    c->pid = fork();
    if (c->pid == 0)
        run(s->value, out[1]);
    close(out[1]);
    if (c->pid < 0)
        return false;
    setpgid(c->pid, c->pid); /* whichever of the two comes first */
    c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    return c->pidfd >= 0 && fcntl(c->out, F_SETFL, O_NONBLOCK) == 0 &&
           rg__loop_watch(s->all->loop, c->out, EPOLLIN, on_output, s) ==
               RG_OK &&
           rg__loop_watch(s->all->loop, c->pidfd, EPOLLIN, on_end, s) == RG_OK;
}

void rg__command_ask(rg__source *s)
{
    if (!free_child(s)) {
        rg__source_fails(s, "it was killed and has not ended yet");
        return;
    }
    child *c = calloc(1, sizeof *c);
    if (c == NULL) {
        rg__source_fails(s, "no memory for it");
        return;
    }
    c->pidfd = c->out = -1;
    s->child = c;
    if (start(s, c))
        return;
    const int cause = errno;
    rg__command_stop(s);
    rg__source_fails(s, "it can't be started: %s", strerror(cause));
}
