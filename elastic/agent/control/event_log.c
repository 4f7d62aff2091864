/* What has happened to the job, oldest first, from its records in etcd: decided
 * generations with size, resume commit and cause; the reasons that ended them;
 * proposals that have not been decided; the end, or that this host has left a
 * job which goes on. Of each generation this host adds how long its members
 * took until they stepped again.
 *
 * Records of reasons and proposals are kept for the newest generations only, of
 * decisions some more: an old generation has one line, its decision, and an
 * older one is only counted. */
#include "elastic/agent/control/control.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/leaving/leaving.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sdk/base/clock.h"

typedef struct event_log {
    rg__agent *a;
    const rg__snapshot *snap;
    json_t *events;
} event_log;

/* All events have the same fields, so that a reader needs no cases. at_ms 0: a
 * record without a time. */
static json_t *add(event_log *s, const char *event, uint64_t generation,
                   int64_t at_ms, const char *why)
{
    json_t *j =
        json_pack("{s:o,s:I,s:s,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:n,s:s}", "at",
                  at_ms != 0 ? json_real((double)at_ms / 1000.0) : json_null(),
                  "generation", (json_int_t)generation, "event", event, "kind",
                  "worker", "from_size", "to_size", "resume", "steps_lost",
                  "recovery_ms", "code", "why", why);
    if (j != NULL)
        json_array_append_new(s->events, j);
    return j;
}

static void set_number(json_t *j, const char *name, int64_t n)
{
    if (j != NULL)
        json_object_set_new(j, name, json_integer(n));
}

static void set_kind(json_t *j, rg__cause_kind kind)
{
    if (j != NULL)
        json_object_set_new(j, "kind", json_string(rg__cause_kind_name(kind)));
}

/* ---------------------------------------------------------- one generation */

static void tell_proposal(event_log *s, const rg__proposal *p)
{
    json_t *j = add(s, "proposed", p->generation, 0, p->cause);
    set_kind(j, p->kind);
    set_number(j, "to_size", p->size);
}

/* Decisions right before this one whose records are gone. */
static void tell_gap(event_log *s, const rg__line *line)
{
    const rg__line *before = line > s->snap->line ? line - 1 : NULL;
    uint64_t n = rg__total_changes(&line->total) - 1;
    if (before != NULL)
        n -= rg__total_changes(&before->total);
    char why[64];
    snprintf(why, sizeof why, "earlier decisions that are not kept: %" PRIu64,
             n);
    if (n > 0)
        add(s, "earlier", line->prev, 0, why);
}

static void tell_decision(event_log *s, const rg__line *line)
{
    json_t *j = add(s, "decided", line->generation, line->at_ms, line->cause);
    set_kind(j, line->kind);
    set_number(j, "from_size", line->from_size);
    set_number(j, "to_size", line->to_size);
    if (line->steps_lost >= 0)
        set_number(j, "steps_lost", line->steps_lost);
    if (j != NULL && line->resume.generation != 0)
        json_object_set_new(j, "resume",
                            json_pack("[I,I]",
                                      (json_int_t)line->resume.generation,
                                      (json_int_t)line->resume.step));
}

/* From the fault to the last local member's first step. */
static void tell_recovery(event_log *s, uint64_t generation)
{
    const rg__change *c = rg__change_find(s->a, generation);
    if (c == NULL || c->detected == 0 || c->stepped <= c->detected)
        return;
    const int64_t ago_ms = (int64_t)((rg__now_ns() - c->stepped) / RG__MS);
    json_t *j = add(s, "stepping", generation, rg__wall_ms() - ago_ms,
                    "all members of this host have ended a step");
    if (j != NULL)
        json_object_set_new(
            j, "recovery_ms",
            json_real((double)(c->stepped - c->detected) / 1e6));
}

static void tell_reasons(event_log *s, uint64_t generation)
{
    for (int i = 0; i < s->snap->reasons; i++) {
        const rg__reason *r = &s->snap->reason[i];
        if (r->generation != generation)
            continue;
        json_t *j = add(s, r->is_death ? "death" : "broken", generation,
                        r->at_ms, r->text);
        if (j != NULL)
            json_object_set_new(j, "worker", json_string(r->member));
    }
}

static void tell_generation(event_log *s, uint64_t generation)
{
    const rg__line *line = rg__snapshot_line(s->snap, generation);
    const rg__proposal *p = rg__snapshot_gen(s->snap, generation);
    if (line != NULL) {
        tell_gap(s, line);
        tell_decision(s, line);
    } else if (p != NULL) {
        tell_proposal(s, p);
    }
    tell_recovery(s, generation);
    tell_reasons(s, generation);
}

/* -------------------------------------------------------------------- whole */

/* The least generation above this one that a record tells of; 0: none. */
static uint64_t next_generation(const rg__snapshot *snap, uint64_t after)
{
    uint64_t least = 0;
    for (int i = 0; i < snap->lines; i++) {
        const uint64_t g = snap->line[i].generation;
        least = g > after && (least == 0 || g < least) ? g : least;
    }
    for (int i = 0; i < snap->gens; i++) {
        const uint64_t g = snap->gen[i].generation;
        least = g > after && (least == 0 || g < least) ? g : least;
    }
    return least;
}

static void tell_code(event_log *s, const char *event, int code,
                      const char *why)
{
    set_number(add(s, event, s->snap->cur.generation, 0, why), "code", code);
}

static void tell_end(event_log *s)
{
    const rg__agent *a = s->a;
    const rg__snapshot *snap = s->snap;
    if (snap->cur.phase == RG__GEN_DONE)
        add(s, "done", snap->cur.generation, 0,
            "fn returned OK on all workers");
    if (rg__end_is_of_job(a))
        tell_code(s, "ended", a->verdict.code, a->verdict.why);
    else if (snap->end.is_set)
        tell_code(s, "ended", snap->end.code, snap->end.why);
    else if (rg__life_is_ending(a))
        tell_code(s, "left", a->verdict.code, a->verdict.why);
}

char *rg__event_log(rg__agent *a, const rg__snapshot *snap, uint64_t from)
{
    event_log s = {.a = a, .snap = snap, .events = json_array()};
    const rg__proposal *decided = rg__snapshot_decided(snap);
    if (decided != NULL)
        rg__change_note_steps(a, decided->generation);
    uint64_t g = from > 0 ? from - 1 : 0;
    while ((g = next_generation(snap, g)) != 0)
        tell_generation(&s, g);
    tell_end(&s);
    char *text = json_dumps(s.events, JSON_INDENT(1) | JSON_REAL_PRECISION(13));
    json_decref(s.events);
    return text;
}

static bool write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    const bool is_written = file != NULL && fputs(text, file) >= 0;
    return file != NULL && fclose(file) == 0 && is_written;
}

void rg__event_log_save(rg__agent *a, const char *text)
{
    const char *run_dir = a->params->run_dir;
    const char *slash = strrchr(run_dir, '/');
    char *path = NULL, *part = NULL;
    if (slash == NULL ||
        asprintf(&path, "%.*s/" RG__EVENT_LOG_FILE "%s", (int)(slash - run_dir),
                 run_dir, a->params->job) < 0)
        return;
    if (asprintf(&part, "%s.%d", path, (int)getpid()) >= 0 &&
        (!write_text(part, text) || rename(part, path) != 0))
        unlink(part); /* it is for people, later; no reason for a warning */
    free(part);
    free(path);
}
