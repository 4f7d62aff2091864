/* Log lines to standard error, one write each. */
#include "sdk/base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <pthread.h>

#define MAX_ROOMS      16
#define SENTENCE_BYTES 896
#define LINE_BYTES     4096 /* a pipe takes as many at once */
#define TAIL_BYTES     16   /* of a line that is cut: an escape, and its end */

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

static _Atomic int most = RG__WARN; /* the highest of any room */
static rg__level common = RG__WARN;
static _Atomic bool is_json;
static _Atomic bool never_waits;
static atomic_bool is_within;    /* another writer's line */
static _Atomic unsigned dropped; /* lines, since the last that was written */

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
    int top = (int)general;
    for (int i = 0; i < n; i++)
        top = (int)rooms[i].level > top ? (int)rooms[i].level : top;
    atomic_store(&most, top);
    pthread_mutex_unlock(&who_lock);
    return true;
}

bool rg__log_format(const char *text)
{
    const bool wants_json = strcmp(text, "json") == 0;
    if (!wants_json && strcmp(text, "text") != 0)
        return false;
    atomic_store(&is_json, wants_json);
    return true;
}

bool rg__log_is_json(void)
{
    return atomic_load_explicit(&is_json, memory_order_relaxed);
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

/* ----------------------------------------------------------------- waiting */

void rg__log_within(bool yes)
{
    atomic_store(&is_within, yes);
}

void rg__log_never_waits(void)
{
    atomic_store(&never_waits, true);
}

/* A pipe that polls writable takes LINE_BYTES without a wait. */
static bool would_wait(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    return atomic_load_explicit(&is_within, memory_order_relaxed) ||
           (atomic_load_explicit(&never_waits, memory_order_relaxed) &&
            poll(&p, 1, 0) == 0);
}

static void put_text(const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        const size_t part = n - at < LINE_BYTES ? n - at : LINE_BYTES;
        if (would_wait())
            return;
        const ssize_t put = write(STDERR_FILENO, text + at, part);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return; /* nowhere to report it */
        at += (size_t)put;
    }
}

/* ------------------------------------------------------------------- lines */

typedef struct line {
    char text[LINE_BYTES];
    size_t n;
} line;

static void add(line *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(line *l, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n =
        vsnprintf(l->text + l->n, sizeof l->text - l->n, format, args);
    va_end(args);
    if (n > 0)
        l->n += (size_t)n;
    if (l->n > sizeof l->text - 1)
        l->n = sizeof l->text - 1;
}

static void end_line(line *l)
{
    if (l->n > sizeof l->text - 2)
        l->n = sizeof l->text - 2;
    l->text[l->n++] = '\n';
    put_text(l->text, l->n);
}

static void write_text(const char *room, const char *sentence)
{
    line l = {.n = 0};
    struct timespec t;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &t);
    localtime_r(&t.tv_sec, &local);
    pthread_mutex_lock(&who_lock);
    char rank[32] = "-";
    if (who_rank >= 0)
        snprintf(rank, sizeof rank, "%d/%d", who_rank, who_size);
    add(&l, "[regroup %02d:%02d:%02d.%03ld %s %s g%llu %s] ", local.tm_hour,
        local.tm_min, local.tm_sec, t.tv_nsec / 1000000, who_host, rank,
        (unsigned long long)who_generation, room);
    pthread_mutex_unlock(&who_lock);
    add(&l, "%s", sentence);
    end_line(&l);
}

/* -------------------------------------------------------------------- JSON */

/* Bytes of the UTF-8 sequence that begins here; 0: there is none. */
static size_t sequence(const unsigned char *s)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t n = s[0] < 0x80             ? 1
                     : (s[0] & 0xe0) == 0xc0 ? 2
                     : (s[0] & 0xf0) == 0xe0 ? 3
                     : (s[0] & 0xf8) == 0xf0 ? 4
                                             : 0;
    if (n < 2)
        return n;
    unsigned code = s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    const bool is_half = code >= 0xd800 && code <= 0xdfff;
    return code < least[n] || code > 0x10ffff || is_half ? 0 : n;
}

/* A JSON string; bytes that are not UTF-8 become a question mark. A text that
 * is too long for the line is cut between characters. */
static void add_string(line *l, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    add(l, "\"");
    while (*s != '\0' && l->n < sizeof l->text - TAIL_BYTES) {
        const size_t n = sequence(s);
        if (n == 0)
            add(l, "?");
        else if (*s == '"' || *s == '\\')
            add(l, "\\%c", *s);
        else if (*s < ' ' || *s == 0x7f)
            add(l, "\\u%04x", *s);
        else
            add(l, "%.*s", (int)n, (const char *)s);
        s += n > 0 ? n : 1;
    }
    add(l, "\"");
}

static void add_number(line *l, const char *name, int n)
{
    if (n >= 0)
        add(l, ",\"%s\":%d", name, n);
    else
        add(l, ",\"%s\":null", name);
}

static void write_json(rg__level level, const char *room, const char *sentence)
{
    line l = {.n = 0};
    struct timespec t;
    struct tm utc;
    char time[32];
    clock_gettime(CLOCK_REALTIME, &t);
    strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", gmtime_r(&t.tv_sec, &utc));
    add(&l, "{\"time\":\"%s.%03ldZ\",\"level\":\"%s\",\"room\":", time,
        t.tv_nsec / 1000000, level_names[level]);
    add_string(&l, room);
    add(&l, ",\"host\":");
    pthread_mutex_lock(&who_lock);
    add_string(&l, who_host);
    add_number(&l, "rank", who_rank);
    add_number(&l, "size", who_rank >= 0 ? who_size : -1);
    add(&l, ",\"generation\":%llu", (unsigned long long)who_generation);
    pthread_mutex_unlock(&who_lock);
    add(&l, ",\"message\":");
    add_string(&l, sentence);
    add(&l, "}");
    end_line(&l);
}

static void write_sentence(rg__level level, const char *room,
                           const char *sentence)
{
    if (rg__log_is_json())
        write_json(level, room, sentence);
    else
        write_text(room, sentence);
}

/* false: drop the line that was to come. Otherwise the number of lines dropped
 * before it was logged. */
static bool can_write(void)
{
    char sentence[80];
    if (would_wait()) {
        atomic_fetch_add(&dropped, 1);
        return false;
    }
    const unsigned n = atomic_exchange(&dropped, 0);
    if (n == 0)
        return true;
    snprintf(sentence, sizeof sentence,
             "%u line%s of the log %s dropped: no process read them", n,
             n > 1 ? "s" : "", n > 1 ? "were" : "was");
    write_sentence(RG__WARN, "log", sentence);
    return can_write();
}

/* A name that the program chose may have any bytes in it. */
static void keep_on_one_line(char *sentence)
{
    for (char *c = sentence; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 127)
            *c = ' ';
}

void rg__log(rg__level level, const char *room, const char *format, ...)
{
    char sentence[SENTENCE_BYTES];
    if (!rg__log_on(level, room) || !can_write())
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    if (!rg__log_is_json()) /* which has escapes for them */
        keep_on_one_line(sentence);
    write_sentence(level, room, sentence);
}

static void write_said(const char *sentence)
{
    char *text = NULL;
    const int n = asprintf(&text, "regroup: %s\n", sentence);
    if (n >= 0)
        put_text(text, (size_t)n);
    free(n >= 0 ? text : NULL);
}

static void say(rg__level level, const char *format, va_list args)
{
    char *sentence = NULL;
    if (!can_write() || vasprintf(&sentence, format, args) < 0)
        return; /* nowhere, or no memory, to report it */
    if (rg__log_is_json())
        write_json(level, "regroup", sentence);
    else
        write_said(sentence);
    free(sentence);
}

void rg__say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(RG__ERROR, format, args);
    va_end(args);
}

void rg__tell(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(RG__INFO, format, args);
    va_end(args);
}
