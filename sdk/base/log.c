/* Log lines to standard error, one write each. */
#include "sdk/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <pthread.h>

#define MAX_ROOMS 16

typedef struct room_level {
    char room[16];
    rg__level level;
} room_level;

static pthread_mutex_t who_lock = PTHREAD_MUTEX_INITIALIZER; /* all below */
static char who_host[64] = "-";
static int who_rank = -1, who_size = -1;
static uint64_t who_generation;
static room_level rooms[MAX_ROOMS];
static int room_count;

static _Atomic int most = RG__WARN; /* the most that any room wants */
static rg__level common = RG__WARN;

static const char *const level_names[] = {"error", "warn", "info", "debug",
                                          "trace"};

static int level_of(const char *text)
{
    for (int i = 0; i <= RG__TRACE; i++)
        if (strcmp(text, level_names[i]) == 0)
            return i;
    return -1;
}

bool rg__log_levels(const char *text)
{
    char copy[256];
    if (strlen(text) >= sizeof copy)
        return false;
    strcpy(copy, text);
    rg__level general = RG__WARN;
    room_level found[MAX_ROOMS];
    int n = 0;
    char *save = NULL;
    for (char *part = strtok_r(copy, ",", &save); part != NULL;
         part = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(part, '=');
        const int level = level_of(eq != NULL ? eq + 1 : part);
        if (level < 0)
            return false;
        if (eq == NULL) {
            general = (rg__level)level;
            continue;
        }
        *eq = '\0';
        if (n == MAX_ROOMS || strlen(part) >= sizeof found[0].room)
            return false;
        strcpy(found[n].room, part);
        found[n++].level = (rg__level)level;
    }
    pthread_mutex_lock(&who_lock);
    common = general;
    memcpy(rooms, found, sizeof(room_level) * (size_t)n);
    room_count = n;
    int top = general;
    for (int i = 0; i < n; i++)
        top = (int)rooms[i].level > top ? (int)rooms[i].level : top;
    atomic_store(&most, top);
    pthread_mutex_unlock(&who_lock);
    return true;
}

void rg__log_who(const char *host, int rank, int size, uint64_t generation)
{
    pthread_mutex_lock(&who_lock);
    snprintf(who_host, sizeof who_host, "%s", host);
    who_rank = rank;
    who_size = size;
    who_generation = generation;
    pthread_mutex_unlock(&who_lock);
}

bool rg__log_on(rg__level level, const char *room)
{
    if ((int)level > atomic_load_explicit(&most, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&who_lock);
    rg__level limit = common;
    for (int i = 0; i < room_count; i++)
        if (strcmp(rooms[i].room, room) == 0)
            limit = rooms[i].level;
    pthread_mutex_unlock(&who_lock);
    return level <= limit;
}

static size_t write_head(char *line, size_t bytes, const char *room)
{
    struct timespec t;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &t);
    localtime_r(&t.tv_sec, &local);
    pthread_mutex_lock(&who_lock);
    char rank[32] = "-";
    if (who_rank >= 0)
        snprintf(rank, sizeof rank, "%d/%d", who_rank, who_size);
    const int n =
        snprintf(line, bytes, "[regroup %02d:%02d:%02d.%03ld %s %s g%llu %s] ",
                 local.tm_hour, local.tm_min, local.tm_sec, t.tv_nsec / 1000000,
                 who_host, rank, (unsigned long long)who_generation, room);
    pthread_mutex_unlock(&who_lock);
    return n < 0 ? 0 : (size_t)n;
}

void rg__log(rg__level level, const char *room, const char *format, ...)
{
    if (!rg__log_on(level, room))
        return;
    char line[1024];
    size_t n = write_head(line, sizeof line, room);
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(line + n, sizeof line - n - 1, format, args);
    va_end(args);
    if (more > 0)
        n += (size_t)more;
    if (n > sizeof line - 2)
        n = sizeof line - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nowhere to say it */
}
