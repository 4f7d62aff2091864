/* Processes of this host: which one it is, and whether it has ended. A number
 * comes again, so the time at which its process began belongs to it. A process
 * of which nothing can be read here, for want of a descriptor perhaps, has
 * ended only if the kernel has none of its number. */
#include "sdk/interpose/interpose.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct seen {
    char state;
    int threads;
    uint64_t start;
} seen;

/* Of /proc/PID/stat, field 3 is the state, 20 how many threads there are, 22
 * the start; the name before them may contain anything. */
static bool read_stat(int pid, seen *s)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[n] = '\0';
    const char *at = strrchr(text, ')');
    return at != NULL && sscanf(at,
                                ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                "%*s %*s %*s %*s %*s %*s %d %*s %" SCNu64,
                                &s->state, &s->threads, &s->start) == 3;
}

rg__life rg__life_of_me(void)
{
    seen s = {0};
    rg__life me = {.pid = getpid()};
    me.ok = read_stat(me.pid, &s);
    me.start = s.start;
    return me;
}

/* A main thread that has ended alone looks like a process that has. */
bool rg__life_is_over(const rg__life *life)
{
    seen s = {0};
    if (!read_stat(life->pid, &s))
        return kill(life->pid, 0) != 0 && errno == ESRCH;
    const bool has_main = s.state != 'Z' && s.state != 'X';
    return s.start != life->start || (!has_main && s.threads <= 1);
}
