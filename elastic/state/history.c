/* The history of one worker process; no part of the library reads it. */
#include "elastic/state/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

struct rg__history {
    int fd, slot;
    char *host;             /* escaped for JSON; owned */
    char *path;             /* owned */
    _Atomic bool is_broken; /* a write failed, and a warning was logged */
};

/* ------------------------------------------------------------------ JSON */

static void put_text(FILE *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
}

static char *escaped(const char *text)
{
    char *copy = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&copy, &bytes);
    if (out == NULL)
        return NULL;
    put_text(out, text);
    fclose(out);
    return copy;
}

static void put_set(FILE *out, const rg__history_set *set)
{
    fputc('"', out);
    put_text(out, set->name);
    fputs("\":[", out);
    for (int i = 0; i < set->count; i++)
        fprintf(out, "%s%d", i > 0 ? "," : "", set->ranks[i]);
    fputc(']', out);
}

/* The line under way: everything that all events share, without its end. */
static void put_head(FILE *out, const rg__history *h, const char *event,
                     uint64_t generation, int rank, int size, uint64_t step,
                     const char *hash)
{
    fprintf(out,
            "{\"t_ns\":%" PRIu64 ",\"host\":\"%s\",\"worker\":\"%s.%d\","
            "\"pid\":%d,\"generation\":%" PRIu64 ",\"rank\":%d,\"size\":%d,"
            "\"event\":\"%s\",\"step\":%" PRIu64 ",\"hash\":",
            rg__now_ns(), h->host, h->host, h->slot, (int)getpid(), generation,
            rank, size, event, step);
    if (hash != NULL)
        fprintf(out, "\"%s\"", hash);
    else
        fputs("null", out);
}

static void say_broken(rg__history *h, const char *why)
{
    if (!atomic_exchange(&h->is_broken, true))
        rg__log(RG__WARN, "state", "history %s has lost a line: %s", h->path,
                why);
}

/* ------------------------------------------------------------------ lines */

typedef struct line {
    FILE *out;
    char *text;
    size_t bytes;
} line;

static bool line_begin(line *l, rg__history *h)
{
    *l = (line){0};
    l->out = open_memstream(&l->text, &l->bytes);
    if (l->out == NULL)
        say_broken(h, strerror(errno));
    return l->out != NULL;
}

static void line_end(line *l, rg__history *h)
{
    fputs("}\n", l->out);
    if (fclose(l->out) != 0)
        say_broken(h, strerror(errno));
    else if (write(h->fd, l->text, l->bytes) != (ssize_t)l->bytes)
        say_broken(h, strerror(errno));
    free(l->text);
}

/* ------------------------------------------------------------- the history */

/* A host's name is part of a file's name here. */
static char *path_of(const char *dir, const char *host, int slot,
                     uint32_t start)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s.%d.%" PRIu32 ".jsonl", dir, host, slot, start) <
        0)
        return NULL;
    for (char *c = path + strlen(dir) + 1; *c != '\0'; c++)
        if (*c == '/')
            *c = '_';
    return path;
}

/* A directory may hold files of earlier jobs, and of this one before its host
 * was restarted: a new file has an unused name. */
static rg_status open_file(rg__history *h, const char *dir, const char *host,
                           uint32_t *start_p, bool is_new)
{
    const int flags =
        O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | (is_new ? O_EXCL : 0);
    for (;; ++*start_p) {
        free(h->path);
        h->path = path_of(dir, host, h->slot, *start_p);
        if (h->path == NULL)
            return rg__fail(RG_ERR_MEMORY, "no memory for the history's name");
        h->fd = open(h->path, flags, 0666);
        if (h->fd >= 0)
            return RG_OK;
        if (errno != EEXIST)
            return rg__fail(RG_ERR_SYSTEM,
                            "can't write the history %s: %s; does the "
                            "directory exist, and may this user write there?",
                            h->path, strerror(errno));
    }
}

rg_status rg__history_open(const char *dir, const char *host, int slot,
                           uint32_t *start_p, bool is_new, rg__history **h_p)
{
    *h_p = NULL;
    if (dir == NULL || dir[0] == '\0')
        return RG_OK;
    rg__history *h = calloc(1, sizeof *h);
    if (h == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the history's head");
    h->fd = -1;
    h->slot = slot;
    h->host = escaped(host);
    const rg_status st =
        h->host != NULL
            ? open_file(h, dir, host, start_p, is_new)
            : rg__fail(RG_ERR_MEMORY, "no memory for the host's name");
    if (st != RG_OK) {
        rg__history_close(h);
        return st;
    }
    *h_p = h;
    return RG_OK;
}

void rg__history_close(rg__history *h)
{
    if (h == NULL)
        return;
    if (h->fd >= 0)
        close(h->fd);
    free(h->path);
    free(h->host);
    free(h);
}

void rg__history_event(rg__history *h, const char *event, uint64_t generation,
                       int rank, int size, uint64_t step, const char *hash)
{
    line l;
    if (h == NULL || !line_begin(&l, h))
        return;
    put_head(l.out, h, event, generation, rank, size, step, hash);
    line_end(&l, h);
}

void rg__history_step(rg__history *h, uint64_t generation, int rank, int size,
                      uint64_t step, const char *hash,
                      const rg__history_samples *samples)
{
    line l;
    if (h == NULL || !line_begin(&l, h))
        return;
    put_head(l.out, h, "step", generation, rank, size, step, hash);
    if (samples != NULL)
        fprintf(l.out, ",\"samples\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
                samples->epoch, samples->first, samples->count);
    line_end(&l, h);
}

void rg__history_decide(rg__history *h, const char *job, uint64_t generation,
                        int rank, int size, rg__commit_id resume,
                        const rg__history_set *sets, int set_count)
{
    line l;
    if (h == NULL || !line_begin(&l, h))
        return;
    put_head(l.out, h, "decide", generation, rank, size, resume.step, NULL);
    fprintf(l.out, ",\"job\":\"%s\"", job);
    if (resume.generation == 0)
        fputs(",\"resume\":null,\"sets\":{", l.out);
    else
        fprintf(l.out, ",\"resume\":[%" PRIu64 ",%" PRIu64 "],\"sets\":{",
                resume.generation, resume.step);
    for (int i = 0; i < set_count; i++) {
        if (i > 0)
            fputc(',', l.out);
        put_set(l.out, &sets[i]);
    }
    fputc('}', l.out);
    line_end(&l, h);
}
