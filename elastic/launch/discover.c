/* Running a discovery script. */
#include "elastic/launch/discover.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/child.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define LATE_NS    (60000 * RG__MS)
#define TEXT_BYTES (1 << 20)

/* The same sentence is not repeated. */
static void complain(rg__discovery *d, const char *why)
{
    if (strcmp(d->said, why) == 0)
        return;
    snprintf(d->said, sizeof d->said, "%s", why);
    rg__log(RG__WARN, "launch",
            "the discovery script %s; the hosts stay as they are, and it will "
            "be run again",
            why);
}

/* ------------------------------------------------------------------ a run */

static void become_script(const rg__discovery *d, pid_t parent)
{
    setpgid(0, 0);
    rg__child_follow(parent);
    rg__child_ready(STDIN_FILENO, d->out, d->err);
    execl("/bin/sh", "sh", "-c", d->command, (char *)NULL);
    _exit(127);
}

static void close_files(rg__discovery *d)
{
    if (d->out >= 0)
        close(d->out);
    if (d->err >= 0)
        close(d->err);
    d->out = d->err = -1;
}

static void start(rg__discovery *d)
{
    const pid_t parent = getpid();
    d->started_ns = rg__now_ns();
    d->is_late = false;
    d->out = memfd_create("discovery", MFD_CLOEXEC);
    d->err = memfd_create("discovery", MFD_CLOEXEC);
    fflush(NULL);
    const pid_t pid = d->out >= 0 && d->err >= 0 ? fork() : -1;
    if (pid == 0)
        become_script(d, parent);
    if (pid > 0) {
        setpgid(pid, pid); /* in parent and child: whichever comes first */
        d->pid = pid;
        return;
    }
    char why[128];
    snprintf(why, sizeof why, "can't be started: %s", strerror(errno));
    close_files(d);
    complain(d, why);
    d->due_ns = d->started_ns + d->interval_ms * RG__MS;
}

int rg__discovery_turn(rg__discovery *d)
{
    if (d->command == NULL)
        return -1;
    if (d->pid == 0 && rg__now_ns() >= d->due_ns)
        start(d);
    const uint64_t now = rg__now_ns();
    if (d->pid != 0 && !d->is_late && now - d->started_ns >= LATE_NS) {
        d->is_late = true;
        kill(-d->pid, SIGKILL);
    }
    const uint64_t next = d->pid != 0 ? d->started_ns + LATE_NS : d->due_ns;
    return next <= now ? 1000 : (int)((next - now) / RG__MS) + 1;
}

/* --------------------------------------------------------------- its answer */

static char *read_text(int fd)
{
    struct stat at;
    if (fd < 0 || fstat(fd, &at) != 0 || at.st_size > TEXT_BYTES)
        return NULL;
    char *text = calloc(1, (size_t)at.st_size + 1);
    if (text != NULL && pread(fd, text, (size_t)at.st_size, 0) != at.st_size) {
        free(text);
        return NULL;
    }
    return text;
}

static void take_list(rg__discovery *d)
{
    rg__host_list list = {0};
    char *text = read_text(d->out);
    rg_status st = text == NULL
                       ? rg__fail(RG_ERR_INVALID, "its output can't be read")
                       : rg__hosts_add_lines(&list, text, "output", d->slots);
    free(text);
    if (st != RG_OK) {
        char why[400];
        snprintf(why, sizeof why, "prints no list of hosts: %s",
                 rg_last_error());
        complain(d, why);
        rg__hosts_free(&list);
        return;
    }
    rg__hosts_free(&d->list);
    d->list = list;
    d->is_new = true;
    d->said[0] = '\0';
}

/* The last line of what it said, without what a log can't show. */
static void read_said(const rg__discovery *d, char said[256])
{
    char *text = read_text(d->err);
    said[0] = '\0';
    if (text == NULL)
        return;
    for (size_t n = strlen(text); n > 0 && text[n - 1] == '\n'; n--)
        text[n - 1] = '\0';
    const char *line = strrchr(text, '\n');
    snprintf(said, 256, "%s", line != NULL ? line + 1 : text);
    for (char *c = said; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    free(text);
}

static void complain_of(rg__discovery *d, int status)
{
    char why[400], said[256];
    read_said(d, said);
    if (d->is_late)
        snprintf(why, sizeof why, "ran for over %d s and was ended",
                 (int)(LATE_NS / (1000 * RG__MS)));
    else
        snprintf(why, sizeof why, "ended with %s %d%s%s%s",
                 WIFSIGNALED(status) ? "signal" : "code",
                 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
                 said[0] != '\0' ? " (" : "", said, said[0] != '\0' ? ")" : "");
    complain(d, why);
}

bool rg__discovery_ended(rg__discovery *d, pid_t pid, int status)
{
    if (d->pid == 0 || pid != d->pid)
        return false;
    if (status == 0 && !d->is_late)
        take_list(d);
    else
        complain_of(d, status);
    close_files(d);
    d->pid = 0;
    d->due_ns = d->started_ns + d->interval_ms * RG__MS;
    return true;
}

void rg__discovery_end(rg__discovery *d)
{
    if (d->pid != 0) {
        kill(-d->pid, SIGKILL);
        waitpid(d->pid, NULL, WNOHANG); /* init reaps one that hangs */
        close_files(d);
    }
    d->pid = 0;
    rg__hosts_free(&d->list);
}
