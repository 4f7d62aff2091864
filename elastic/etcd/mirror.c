/* A mirror: list at R, watch from R + 1, go on from the last whole revision.
 *
 *   LISTING ──listed──> CONNECTING ──created──> WATCHING
 *      ^                  ^   │                    │
 *      │   back-off over  │   cut                  │ cut, compacted, unreadable
 *      └───────────────── PAUSED <─────────────────┘
 *
 * Events are reported in whole revisions; those that come twice are recognised
 * by their revision and skipped. guard.c watches over a watch that says
 * nothing.
 *
 * Another store is one whose revision went back, or whose meta key was made at
 * another revision or holds something else: a wiped store is often seeded in
 * the same order, so the revision alone would be equal.
 *
 * fn may destroy the mirror: calling it is the last thing that a function here
 * does. */
#include "elastic/etcd/guard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/etcd/mirrored.h"
#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define REFUSED_MS 1000 /* until a refused list is asked for again */

static void start_list(rg__mirror *mirror);

static void tell_changes(rg__mirror *mirror)
{
    const bool is_wiped = mirror->is_wiped;
    if (!mirror->has_changed)
        return;
    mirror->has_changed = mirror->is_wiped = false;
    mirror->fn(mirror->arg, mirror->revision, is_wiped);
}

/* ---------------------------------------------------- the store's identity */

bool rg__mirror_is_other(const rg__mirror *mirror, const rg__kvs *meta)
{
    if (mirror->meta.n == 0)
        return false;
    const rg__kv *known = mirror->meta.kv;
    return meta->n == 0 ||
           meta->kv->create_revision != known->create_revision ||
           strcmp(meta->kv->value, known->value) != 0;
}

void rg__mirror_add_meta(const rg__mirror *mirror, rg__body *body)
{
    if (mirror->meta_key == NULL)
        return;
    rg__body_add(body, ",{\"request_range\":{");
    rg__body_range(body, mirror->meta_key, NULL);
    rg__body_add(body, "}}");
}

bool rg__mirror_read_meta(const rg__mirror *mirror, const json_t *reply,
                          rg__kvs *meta)
{
    rg__kvs_free(meta);
    return mirror->meta_key == NULL ||
           rg__kvs_read(rg__txn_range(reply, 1), meta);
}

/* ------------------------------------------------------------------ pauses */

static void pause_mirror(rg__mirror *mirror, bool must_list, uint64_t delay_ns)
{
    mirror->stage = RG__MIRROR_PAUSED;
    mirror->must_list = must_list;
    rg__timer_set(mirror->pause, delay_ns);
}

static void back_off(rg__mirror *mirror, bool must_list)
{
    pause_mirror(mirror, must_list, rg__etcd_backoff_ns(mirror->failures));
    mirror->failures++;
}

static void drop_watch(rg__mirror *mirror)
{
    rg__watch_close(mirror->watch);
    mirror->watch = NULL;
}

void rg__mirror_relist(rg__mirror *mirror)
{
    drop_watch(mirror);
    if (mirror->stage != RG__MIRROR_LISTING)
        start_list(mirror);
}

/* ------------------------------------------------------------------- watch */

static void on_created(void *arg, int64_t revision)
{
    rg__mirror *mirror = arg;
    mirror->stage = RG__MIRROR_WATCHING;
    rg__guard_watch(mirror, revision);
}

static bool apply(rg__mirror *mirror, const json_t *event, int64_t *newest_p)
{
    bool is_delete = false, ok = true;
    rg__kv kv;
    if (!rg__event_read(event, &is_delete, &kv))
        return false;
    if (kv.mod_revision > mirror->revision) { /* else seen already */
        if (kv.mod_revision > *newest_p)
            *newest_p = kv.mod_revision;
        mirror->has_changed = true;
        if (is_delete)
            rg__copy_remove(&mirror->copy, kv.key);
        else
            ok = rg__copy_put(&mirror->copy, &kv);
    }
    rg__kv_free(&kv);
    return ok;
}

static bool on_events(void *arg, const json_t *events)
{
    rg__mirror *mirror = arg;
    int64_t newest = mirror->revision;
    size_t i = 0;
    json_t *event = NULL;
    json_array_foreach(events, i, event)
    {
        if (!apply(mirror, event, &newest))
            return false;
    }
    mirror->revision = newest;
    rg__guard_heard(mirror);
    return true;
}

static void on_pause(void *arg)
{
    tell_changes(arg);
}

static void on_end(void *arg, rg__watch_end end, const char *why)
{
    rg__mirror *mirror = arg;
    mirror->watch = NULL;
    rg__log(RG__DEBUG, "etcd", "a watch ended at revision %" PRId64 ": %s",
            mirror->revision, why);
    back_off(mirror, end == RG__WATCH_RELIST);
    tell_changes(mirror);
}

void rg__mirror_resume(rg__mirror *mirror)
{
    static const rg__watch_fns fns = {.created = on_created,
                                      .events = on_events,
                                      .pause = on_pause,
                                      .end = on_end};
    drop_watch(mirror);
    rg__timer_stop(mirror->pause);
    mirror->stage = RG__MIRROR_CONNECTING;
    mirror->watch_number++;
    mirror->watch_endpoint = mirror->etcd->endpoint;
    if (rg__watch_open(mirror->etcd, mirror->watch_endpoint, mirror->key,
                       mirror->range_end, mirror->revision + 1, &fns, mirror,
                       &mirror->watch) != RG_OK)
        back_off(mirror, false);
}

/* -------------------------------------------------------------------- list */

static bool read_list(void *arg, const json_t *reply)
{
    rg__mirror *mirror = arg;
    rg__kvs_free(&mirror->listed);
    return rg__json_revision(reply, &mirror->listed_revision) &&
           mirror->listed_revision > 0 &&
           rg__kvs_read(rg__txn_range(reply, 0), &mirror->listed) &&
           rg__mirror_read_meta(mirror, reply, &mirror->listed_meta);
}

/* Make the list's answer the copy; false: it is no list of keys. */
static bool take_list(rg__mirror *mirror)
{
    const bool is_wiped = mirror->is_listed &&
                          (mirror->listed_revision < mirror->revision ||
                           rg__mirror_is_other(mirror, &mirror->listed_meta));
    const bool is_new = !mirror->is_listed || is_wiped ||
                        !rg__copy_equal(&mirror->copy, &mirror->listed);
    if (!rg__copy_set(&mirror->copy, &mirror->listed))
        return false;
    rg__kvs_free(&mirror->meta);
    mirror->meta = mirror->listed_meta;
    mirror->listed_meta = (rg__kvs){0};
    mirror->revision = mirror->listed_revision;
    mirror->is_listed = true;
    mirror->has_changed |= is_new;
    mirror->is_wiped |= is_wiped;
    return true;
}

static void on_list(void *arg, rg_status st, const rg__answer *answer)
{
    rg__mirror *mirror = arg;
    (void)answer;
    mirror->list = NULL;
    if (st != RG_OK) {
        rg__log(RG__WARN, "etcd", "no list: %s", rg_last_error());
        pause_mirror(mirror, true, REFUSED_MS * RG__MS);
        return;
    }
    if (!take_list(mirror)) {
        back_off(mirror, true);
        return;
    }
    rg__guard_start(mirror);
    rg__mirror_resume(mirror);
    tell_changes(mirror);
}

static void start_list(rg__mirror *mirror)
{
    static const rg__call call = {.path = "/v3/kv/txn",
                                  .timeout_ms = RG__ETCD_LIST_MS,
                                  .slow_ms = RG__ETCD_SLOW_MS,
                                  .read = read_list,
                                  .done = on_list};
    rg__body body = {0};
    rg__timer_stop(mirror->pause);
    mirror->stage = RG__MIRROR_LISTING;
    rg__body_add(&body, "{\"success\":[{\"request_range\":{");
    rg__body_range(&body, mirror->key, mirror->range_end);
    rg__body_add(&body, "}}");
    rg__mirror_add_meta(mirror, &body);
    rg__body_add(&body, "]}");
    mirror->list =
        rg__etcd_post(mirror->etcd, &call, rg__body_take(&body), -1, mirror);
    if (mirror->list == NULL)
        back_off(mirror, true);
}

static void on_pause_end(void *arg)
{
    rg__mirror *mirror = arg;
    if (mirror->must_list)
        start_list(mirror);
    else
        rg__mirror_resume(mirror);
}

/* A member that does not answer brings no news either. The caller may be in the
 * middle of such a watch, so the watch is closed a little later. */
void rg__etcd_move_mirrors(rg__etcd *etcd, int endpoint)
{
    for (rg__mirror *mirror = etcd->mirrors; mirror != NULL;
         mirror = mirror->next)
        if (mirror->stage == RG__MIRROR_WATCHING &&
            mirror->watch_endpoint == endpoint)
            pause_mirror(mirror, false, 0);
}

void rg__etcd_hurry_mirrors(rg__etcd *etcd)
{
    for (rg__mirror *mirror = etcd->mirrors; mirror != NULL;
         mirror = mirror->next)
        if (mirror->stage == RG__MIRROR_PAUSED)
            rg__timer_set(mirror->pause, 0);
}

/* ------------------------------------------------------ create and destroy */

rg_status rg__mirror_create(rg__etcd *etcd, const char *key,
                            const char *range_end, const char *meta_key,
                            rg__mirror_fn fn, void *arg, rg__mirror **mirror_p)
{
    rg__mirror *mirror = calloc(1, sizeof *mirror);
    if (mirror == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a mirror of %s", key);
    mirror->etcd = etcd;
    mirror->fn = fn;
    mirror->arg = arg;
    mirror->next = etcd->mirrors;
    etcd->mirrors = mirror;
    mirror->pause = rg__timer_create(etcd->loop, on_pause_end, mirror);
    mirror->guard.timer =
        rg__timer_create(etcd->loop, rg__guard_on_timer, mirror);
    if (mirror->pause == NULL || mirror->guard.timer == NULL ||
        !rg__http_copy(key, &mirror->key) ||
        !rg__http_copy(range_end, &mirror->range_end) ||
        !rg__http_copy(meta_key, &mirror->meta_key)) {
        rg__mirror_destroy(mirror);
        return rg__fail(RG_ERR_MEMORY, "no memory for a mirror of %s", key);
    }
    start_list(mirror);
    *mirror_p = mirror;
    return RG_OK;
}

void rg__mirror_destroy(rg__mirror *mirror)
{
    if (mirror == NULL)
        return;
    rg__chain_remove(&mirror->etcd->mirrors, mirror);
    drop_watch(mirror);
    rg__etcd_cancel(mirror->list);
    rg__etcd_cancel(mirror->guard.req);
    rg__timer_destroy(mirror->pause);
    rg__timer_destroy(mirror->guard.timer);
    rg__kvs_free(&mirror->copy);
    rg__kvs_free(&mirror->meta);
    rg__kvs_free(&mirror->listed);
    rg__kvs_free(&mirror->listed_meta);
    rg__kvs_free(&mirror->guard.meta);
    free(mirror->key);
    free(mirror->range_end);
    free(mirror->meta_key);
    free(mirror);
}

/* ----------------------------------------------------------------- reading */

bool rg__mirror_is_listed(const rg__mirror *mirror)
{
    return mirror->is_listed;
}

int64_t rg__mirror_revision(const rg__mirror *mirror)
{
    return mirror->revision;
}

size_t rg__mirror_count(const rg__mirror *mirror)
{
    return mirror->copy.n;
}

const rg__kv *rg__mirror_at(const rg__mirror *mirror, size_t i)
{
    return i < mirror->copy.n ? &mirror->copy.kv[i] : NULL;
}
