/* `regroup timeline merge`: the timelines of several hosts as one, on
 * standard output. The first file's clock counts. How far another host's
 * clock is from it follows from the operations of all ranks that both files
 * have, since no rank leaves such an operation before every rank has begun
 * it. So each operation gives a least and a greatest difference. The
 * operations of one second together give a narrow range, whose middle is
 * taken; between such seconds the difference changes evenly, as with clocks
 * that run at different speeds.  A file is read a line at a time, since it
 * can be larger than memory. */
#include "elastic/cli/timeline_merge.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sdk/base/fail.h"
#include "sdk/base/grow.h"

#define HEAD      "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
#define WORLD     1 /* the thread of set 0 */
#define WINDOW_US 1e6

/* In these each rank waits for all. */
static const char *const meetings[] = {"agreement", "barrier", "allreduce"};

typedef struct trace {
    const char *path;
    FILE *file;
    char *line; /* getline's */
    size_t room;
    uint64_t lines;
    rg_status st; /* why it has ended early */
} trace;

typedef struct meeting {
    uint64_t generation, number;
    double begun_us, ended_us;
} meeting;

typedef struct knot {
    double at_us, ahead_us; /* of the other clock */
} knot;

typedef struct shift {
    knot *knot; /* by time; owned */
    size_t n;
} shift;

/* ------------------------------------------------------------------ reading */

/* Not a pipe, since it is read several times. NULL: *why_p is the reason. */
static FILE *open_file(const char *path, const char **why_p)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat at;
    FILE *file = NULL;
    *why_p = "it has to be a file";
    if (fd < 0 || fstat(fd, &at) != 0 ||
        (S_ISREG(at.st_mode) && (file = fdopen(fd, "r")) == NULL))
        *why_p = strerror(errno);
    if (file == NULL && fd >= 0)
        close(fd);
    return file;
}

static rg_status open_trace(trace *t, const char *path)
{
    const char *why;
    *t = (trace){.path = path, .file = open_file(path, &why)};
    t->st = RG_OK;
    if (t->file == NULL)
        return rg__fail(RG_ERR_INVALID, "the timeline %s can't be read: %s",
                        path, why);
    if (getline(&t->line, &t->room, t->file) < 0 || strcmp(t->line, HEAD) != 0)
        return rg__fail(RG_ERR_INVALID,
                        "%s does not begin as a timeline of Regroup does",
                        path);
    return RG_OK;
}

static void close_trace(trace *t)
{
    if (t->file != NULL)
        fclose(t->file);
    free(t->line);
}

/* The next event, new; NULL: there is none, or t->st says why not. */
static json_t *next_event(trace *t)
{
    const ssize_t got = getline(&t->line, &t->room, t->file);
    t->lines++;
    if (got < 0 && ferror(t->file))
        t->st = rg__fail(RG_ERR_SYSTEM, "the timeline %s can't be read: %s",
                         t->path, strerror(errno));
    if (got < 0 || t->line[0] == ']')
        return NULL;
    size_t n = (size_t)got;
    while (n > 0 && (t->line[n - 1] == '\n' || t->line[n - 1] == ','))
        n--;
    json_t *event = json_loadb(t->line, n, 0, NULL);
    if (!json_is_object(event)) {
        json_decref(event);
        t->st = rg__fail(RG_ERR_INVALID, "line %llu of %s is not an event",
                         (unsigned long long)t->lines + 1, t->path);
        return NULL;
    }
    return event;
}

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static uint64_t count(const json_t *object, const char *name)
{
    const json_int_t n = json_integer_value(json_object_get(object, name));
    return n > 0 ? (uint64_t)n : 0;
}

static bool is_meeting(const json_t *event)
{
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *args = json_object_get(event, "args");
    const char *status = json_string_value(json_object_get(args, "status"));
    if (name == NULL || count(event, "tid") != WORLD ||
        !json_is_integer(json_object_get(args, "number")) ||
        (status != NULL && strcmp(status, "RG_OK") != 0))
        return false;
    for (size_t i = 0; i < sizeof meetings / sizeof *meetings; i++)
        if (strcmp(name, meetings[i]) == 0)
            return true;
    return false;
}

static bool is_after(const meeting *a, const meeting *b)
{
    return a->generation != b->generation ? a->generation > b->generation
                                          : a->number > b->number;
}

/* The next meeting that no worker of the file has shown before. */
static bool next_meeting(trace *t, meeting *m)
{
    json_t *event;
    while ((event = next_event(t)) != NULL) {
        const json_t *args = json_object_get(event, "args");
        const double begun_us = number(event, "ts");
        const meeting next = {count(args, "generation"), count(args, "number"),
                              begun_us, begun_us + number(event, "dur")};
        const bool is_next = is_meeting(event) && is_after(&next, m);
        json_decref(event);
        if (is_next) {
            *m = next;
            return true;
        }
    }
    return false;
}

/* --------------------------------------------------------------- difference */

typedef struct window {
    double from_us, least_us, most_us;
} window;

static bool add_knot(shift *s, const window *w)
{
    if (!isfinite(w->least_us) || !isfinite(w->most_us))
        return true; /* there was nothing in it */
    knot *one = rg__grow(&s->knot, s->n, sizeof *one);
    if (one == NULL)
        return false;
    s->n++;
    *one = (knot){w->from_us + WINDOW_US / 2, (w->least_us + w->most_us) / 2};
    return true;
}

static bool add_meeting(shift *s, window *w, const meeting *ours,
                        const meeting *theirs)
{
    bool has_room = true;
    if (!(ours->ended_us < w->from_us + WINDOW_US)) {
        has_room = add_knot(s, w);
        *w = (window){ours->ended_us, -INFINITY, INFINITY};
    }
    const double least_us = theirs->begun_us - ours->ended_us;
    const double most_us = theirs->ended_us - ours->begun_us;
    w->least_us = least_us > w->least_us ? least_us : w->least_us;
    w->most_us = most_us < w->most_us ? most_us : w->most_us;
    return has_room;
}

static rg_status compare(trace *a, trace *b, shift *s)
{
    window w = {-INFINITY, -INFINITY, INFINITY};
    meeting ours = {0}, theirs = {0};
    bool is_there = next_meeting(a, &ours) && next_meeting(b, &theirs);
    bool has_room = true;
    while (is_there && has_room) {
        if (is_after(&ours, &theirs)) {
            is_there = next_meeting(b, &theirs);
        } else if (is_after(&theirs, &ours)) {
            is_there = next_meeting(a, &ours);
        } else {
            has_room = add_meeting(s, &w, &ours, &theirs);
            is_there = next_meeting(a, &ours) && next_meeting(b, &theirs);
        }
    }
    if (!has_room || !add_knot(s, &w))
        return rg__fail(RG_ERR_MEMORY, "no memory to compare timelines");
    return a->st != RG_OK ? a->st : b->st;
}

static rg_status measure(const char *first, const char *path, shift *s)
{
    trace a = {0}, b = {0};
    rg_status st = open_trace(&a, first);
    if (st == RG_OK)
        st = open_trace(&b, path);
    if (st == RG_OK)
        st = compare(&a, &b, s);
    close_trace(&a);
    close_trace(&b);
    return st;
}

/* How far the other clock is ahead when it shows that time. */
static double ahead_us(const shift *s, double at_us)
{
    size_t low = 0, high = s->n;
    if (s->n == 0)
        return 0;
    while (low < high) {
        const size_t i = (low + high) / 2;
        if (s->knot[i].at_us + s->knot[i].ahead_us <= at_us)
            low = i + 1;
        else
            high = i;
    }
    if (low == 0 || low == s->n)
        return s->knot[low == 0 ? 0 : low - 1].ahead_us;
    const knot *from = &s->knot[low - 1], *to = &s->knot[low];
    const double part =
        (at_us - from->at_us - from->ahead_us) /
        (to->at_us + to->ahead_us - from->at_us - from->ahead_us);
    return from->ahead_us + part * (to->ahead_us - from->ahead_us);
}

/* ------------------------------------------------------------------ writing */

/* Keep tracks of different files apart, and pairs of events. */
static void tell_apart(json_t *event, const char *name, uint64_t file,
                       uint64_t files)
{
    if (json_object_get(event, name) != NULL)
        json_object_set_new(
            event, name,
            json_integer((json_int_t)(count(event, name) * files + file)));
}

static void put(json_t *event, const shift *s, uint64_t file, uint64_t files,
                bool *is_first)
{
    json_t *ts = json_object_get(event, "ts");
    if (json_is_number(ts)) {
        const double us = json_number_value(ts);
        json_object_set_new(event, "ts", json_real(us - ahead_us(s, us)));
    }
    tell_apart(event, "id", file, files);
    tell_apart(event, "pid", file, files);
    fputs(*is_first ? "" : ",\n", stdout);
    json_dumpf(event, stdout, JSON_COMPACT | JSON_REAL_PRECISION(17));
    *is_first = false;
}

/* To its end. */
static rg_status look(const char *path)
{
    trace t = {0};
    json_t *event;
    rg_status st = open_trace(&t, path);
    while (st == RG_OK && (event = next_event(&t)) != NULL)
        json_decref(event);
    st = st == RG_OK ? t.st : st;
    close_trace(&t);
    return st;
}

static rg_status copy(const char *path, const shift *s, uint64_t file,
                      uint64_t files, bool *is_first)
{
    trace t = {0};
    json_t *event;
    rg_status st = open_trace(&t, path);
    while (st == RG_OK && (event = next_event(&t)) != NULL) {
        put(event, s, file, files, is_first);
        json_decref(event);
    }
    st = st == RG_OK ? t.st : st;
    close_trace(&t);
    return st;
}

/* All files are checked before the first byte is written. */
rg_status rg__timeline_merge(char *const *paths, int n)
{
    bool is_first = true;
    shift *shifts = calloc((size_t)n, sizeof *shifts);
    rg_status st = shifts != NULL
                       ? RG_OK
                       : rg__fail(RG_ERR_MEMORY, "no memory for timelines");
    for (int i = 0; st == RG_OK && i < n; i++)
        st = look(paths[i]);
    for (int i = 1; st == RG_OK && i < n; i++) {
        st = measure(paths[0], paths[i], &shifts[i]);
        if (st == RG_OK && shifts[i].n == 0)
            fprintf(stderr,
                    "regroup: %s and %s have no operation of all ranks in "
                    "common: its times are those of its host's clock\n",
                    paths[0], paths[i]);
    }
    if (st == RG_OK)
        fputs(HEAD, stdout);
    for (int i = 0; st == RG_OK && i < n; i++)
        st = copy(paths[i], &shifts[i], (uint64_t)i, (uint64_t)n, &is_first);
    if (st == RG_OK)
        fputs("\n]}\n", stdout);
    for (int i = 0; shifts != NULL && i < n; i++)
        free(shifts[i].knot);
    free(shifts);
    return st;
}
