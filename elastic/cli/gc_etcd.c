/* One job after the other, each by one read and, if it is dead, one txn that
 * holds only while it is as it was read. */
#include "elastic/cli/gc_etcd.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/cli/rundir.h"
#include "elastic/cli/talk.h"
#include "elastic/member/records.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define JOBS      "/regroup/v1/"
#define NOTES     "/regroup/gc/"
#define ANSWER_MS 10000
#define KEY_BYTES 256

/* A job as it was read. */
typedef struct job {
    char name[RG__NAME_MAX], prefix[KEY_BYTES], note[KEY_BYTES];
    bool has_keys, is_alive, has_ended;
    int code;
    int64_t newest; /* revision of any of its keys */
    bool has_note;
    int64_t note_newest, since_ms; /* what the note says */
} job;

typedef struct gc {
    rg__talk talk;
    uint64_t older_than_ms;
    bool is_dry;
    int64_t now_ms;
    rg__gc_counts counts;
    char cursor[KEY_BYTES + 2]; /* jobs from this key on */
    char found[KEY_BYTES];      /* the first key there, "": none */
    job job;
    bool succeeded; /* of the newest txn */
} gc;

static rg_status ask(gc *g, rg__txn *txn, rg__txn_fn fn)
{
    return rg__talk_ask(&g->talk, txn, fn, g, ANSWER_MS);
}

static void on_written(void *arg, rg_status st, const rg__txn_reply *reply)
{
    gc *g = arg;
    g->succeeded = st == RG_OK && reply->succeeded;
    rg__talk_end(&g->talk, st);
}

/* ------------------------------------------------------------------ reading */

static void read_note(job *j, const rg__kv *kv)
{
    json_t *note = json_loadb(kv->value, kv->value_bytes, 0, NULL);
    j->has_note = json_is_object(note);
    j->note_newest = json_integer_value(json_object_get(note, "newest"));
    j->since_ms = json_integer_value(json_object_get(note, "since_ms"));
    json_decref(note);
}

static void read_key(job *j, const rg__kv *kv)
{
    j->has_keys = true;
    j->is_alive |= kv->lease != 0;
    if (kv->mod_revision > j->newest)
        j->newest = kv->mod_revision;
}

static void read_end(job *j, const rg__txn_reply *reply)
{
    rg__snapshot snap;
    rg__snapshot_read(&snap, j->prefix, reply->kv, reply->kv_count);
    j->has_ended = rg__snapshot_is_over(&snap);
    j->code = snap.end.code;
    rg__snapshot_free(&snap);
}

static void on_job(void *arg, rg_status st, const rg__txn_reply *reply)
{
    gc *g = arg;
    for (size_t i = 0; st == RG_OK && i < reply->kv_count; i++) {
        const rg__kv *kv = &reply->kv[i];
        if (strcmp(kv->key, g->job.note) == 0)
            read_note(&g->job, kv);
        else
            read_key(&g->job, kv);
    }
    if (st == RG_OK && !g->job.is_alive)
        read_end(&g->job, reply);
    rg__talk_end(&g->talk, st);
}

static rg_status read_job(gc *g)
{
    char *end = rg__prefix_end(g->job.prefix);
    rg__txn *txn = rg__txn_create();
    rg__txn_get(txn, RG__THEN, g->job.prefix, end != NULL ? end : "");
    rg__txn_get(txn, RG__THEN, g->job.note, NULL);
    free(end);
    return ask(g, txn, on_job);
}

/* ----------------------------------------------------------------- removing */

/* The txn holds only while the job is as it was read. */
static rg_status remove_job(gc *g)
{
    const job *j = &g->job;
    char *end = rg__prefix_end(j->prefix);
    rg__txn *txn = end != NULL ? rg__txn_create() : NULL;
    rg__txn_if_unchanged(txn, j->prefix, end, j->newest);
    rg__txn_delete(txn, j->prefix, end);
    rg__txn_delete(txn, j->note, NULL);
    free(end);
    return ask(g, txn, on_written);
}

/* "1 h 5 min", "3 min", "12 s". */
static void put_duration(int64_t ms, char text[32])
{
    const long long s = ms / 1000;
    if (s >= 3600)
        snprintf(text, 32, "%lld h %lld min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(text, 32, "%lld min", s / 60);
    else
        snprintf(text, 32, "%lld s", s);
}

static rg_status remove_and_say(gc *g, const char *why)
{
    g->succeeded = true;
    const rg_status st = g->is_dry ? RG_OK : remove_job(g);
    if (st != RG_OK)
        return st;
    if (!g->succeeded) {
        printf("kept job %s in etcd: it has changed meanwhile\n", g->job.name);
        g->counts.kept++;
        return RG_OK;
    }
    printf("%s job %s from etcd: %s\n", g->is_dry ? "would remove" : "removed",
           g->job.name, why);
    g->counts.removed++;
    return RG_OK;
}

/* -------------------------------------------------------------------- notes */

static rg_status write_note(gc *g)
{
    char text[96];
    rg__txn *txn = rg__txn_create();
    snprintf(text, sizeof text,
             "{\"newest\":%" PRId64 ",\"since_ms\":%" PRId64 "}", g->job.newest,
             g->job.since_ms);
    rg__txn_put(txn, g->job.note, text, 0);
    return ask(g, txn, on_written);
}

static rg_status forget_note(gc *g)
{
    rg__txn *txn = rg__txn_create();
    rg__txn_delete(txn, g->job.note, NULL);
    return ask(g, txn, on_written);
}

/* A job without agents that never ended: since when? */
static rg_status judge_silent(gc *g)
{
    job *j = &g->job;
    char since[32], left[32], why[128];
    const bool is_old = j->has_note && j->note_newest == j->newest;
    if (!is_old || j->since_ms > g->now_ms)
        j->since_ms = g->now_ms;
    const uint64_t silent_ms = (uint64_t)(g->now_ms - j->since_ms);
    put_duration((int64_t)silent_ms, since);
    if (silent_ms >= g->older_than_ms) {
        snprintf(why, sizeof why, "no host is in it for at least %s", since);
        return remove_and_say(g, why);
    }
    put_duration((int64_t)(g->older_than_ms - silent_ms), left);
    printf("kept job %s in etcd: no host is in it, for at least %s; a gc in %s "
           "removes it if none comes\n",
           j->name, since, left);
    g->counts.kept++;
    return is_old || g->is_dry ? RG_OK : write_note(g);
}

static rg_status judge(gc *g)
{
    const job *j = &g->job;
    char why[64];
    if (j->is_alive)
        return j->has_note && !g->is_dry ? forget_note(g) : RG_OK;
    if (!j->has_ended)
        return judge_silent(g);
    snprintf(why, sizeof why, "it has ended with code %d", j->code);
    return remove_and_say(g, why);
}

/* --------------------------------------------------------------------- walk */

static void on_first(void *arg, rg_status st, const rg__txn_reply *reply)
{
    gc *g = arg;
    g->found[0] = '\0';
    if (st == RG_OK && reply->kv_count > 0)
        snprintf(g->found, sizeof g->found, "%s", reply->kv[0].key);
    rg__talk_end(&g->talk, st);
}

static rg_status find_next(gc *g, const char *below)
{
    char *end = rg__prefix_end(below);
    rg__txn *txn = end != NULL ? rg__txn_create() : NULL;
    rg__txn_get_first(txn, g->cursor, end != NULL ? end : "");
    free(end);
    return ask(g, txn, on_first);
}

/* The name behind `below` in the key that was found; false: not a key of a
 * job; it is skipped. */
static bool name_job(gc *g, const char *below)
{
    job *j = &g->job;
    const char *name = g->found + strlen(below);
    const size_t n = strcspn(name, "/");
    memset(j, 0, sizeof *j);
    snprintf(j->name, sizeof j->name, "%.*s", (int)n, name);
    if (n >= sizeof j->name || !rg__is_name(j->name))
        return false;
    snprintf(j->prefix, sizeof j->prefix, JOBS "%s/", j->name);
    snprintf(j->note, sizeof j->note, NOTES "%s", j->name);
    return true;
}

static void step_over(gc *g, const char *key, char behind)
{
    snprintf(g->cursor, sizeof g->cursor, "%s%c", key, behind);
}

static rg_status look_at_jobs(gc *g)
{
    snprintf(g->cursor, sizeof g->cursor, JOBS);
    for (;;) {
        rg_status st = find_next(g, JOBS);
        if (st != RG_OK || g->found[0] == '\0')
            return st;
        if (!name_job(g, JOBS)) {
            step_over(g, g->found, '\1');
            continue;
        }
        st = read_job(g);
        if (st == RG_OK && g->job.has_keys)
            st = judge(g);
        if (st != RG_OK)
            return st;
        g->job.prefix[strlen(g->job.prefix) - 1] = '\0';
        step_over(g, g->job.prefix, '/' + 1);
    }
}

/* Notes of jobs that another gc removed. */
static rg_status look_at_notes(gc *g)
{
    snprintf(g->cursor, sizeof g->cursor, NOTES);
    for (;;) {
        rg_status st = find_next(g, NOTES);
        if (st != RG_OK || g->found[0] == '\0')
            return st;
        step_over(g, g->found, '\1');
        if (!name_job(g, NOTES))
            continue;
        st = read_job(g);
        if (st == RG_OK && !g->job.has_keys)
            st = forget_note(g);
        if (st != RG_OK)
            return st;
    }
}

rg_status rg__gc_etcd(const rg__etcd_params *params, uint64_t older_than_ms,
                      bool is_dry, rg__gc_counts *counts_p)
{
    gc *g = calloc(1, sizeof *g);
    if (g == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to look into etcd");
    g->older_than_ms = older_than_ms;
    g->is_dry = is_dry;
    g->now_ms = rg__wall_ms();
    rg_status st = rg__talk_open(&g->talk, params, -1);
    if (st == RG_OK)
        st = look_at_jobs(g);
    if (st == RG_OK && !is_dry)
        st = look_at_notes(g);
    rg__talk_close(&g->talk);
    *counts_p = g->counts;
    free(g);
    return st;
}
