/* Processes of this host: which one it is, and whether it has ended. A number
 * comes again, so the time at which its process began belongs to it. */
#include "sdk/interpose/interpose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Field 3 of /proc/PID/stat is the state, field 22 the start; the name before
 * them may contain anything. */
static bool read_stat(int pid, char *state_p, uint64_t *start_p)
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
    return at != NULL &&
           sscanf(at,
                  ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                  "%*s %*s %*s %*s %*s %" SCNu64,
                  state_p, start_p) == 2;
}

rg__life rg__life_of_me(void)
{
    char state;
    rg__life me = {.pid = getpid(), .ok = 1};
    if (!read_stat(me.pid, &state, &me.start))
        me.ok = 0;
    return me;
}

bool rg__life_is_over(const rg__life *life)
{
    char state = 'X';
    uint64_t start = 0;
    return !read_stat(life->pid, &state, &start) || start != life->start ||
           state == 'Z' || state == 'X';
}
