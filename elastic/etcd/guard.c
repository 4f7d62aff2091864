/* The guard of a mirror.  A watch can be deaf without any sign: started in the
 * future of a store that was wiped, or on a member that is cut off or gone. The
 * guard asks, through another endpoint where there is one, whether the range
 * has changed behind the copy; its count also sees deletions, which a filter by
 * revision hides. If the copy is behind, and still is GRACE_MS later, the guard
 * makes a new watch; if that does not help, a new list.  Where many clients
 * mirror the same range, their questions would be most of the store's work:
 * then each asks more rarely, and soon only when it knows from elsewhere that
 * there is news. The store also takes longer to notify them all, and a new
 * watch would ask for the same bytes once more. */
#include "elastic/etcd/guard.h"

#include <inttypes.h>

#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define GUARD_MS        500
#define GUARD_JITTER_MS 250
#define GRACE_MS        100 /* of such a crowd, or a smaller one */
#define CROWD           25  /* clients that may ask that often */

static void ask_in(rg__mirror *mirror, uint64_t ms)
{
    mirror->guard.is_suspicious = mirror->guard.is_expecting = false;
    rg__timer_set(mirror->guard.timer, ms * RG__MS);
}

static uint64_t interval_ms(void)
{
    return GUARD_MS + rg__random() % GUARD_JITTER_MS;
}

static uint64_t for_crowd(const rg__mirror *mirror, uint64_t ms)
{
    const uint64_t crowd = mirror->guard.crowd;
    return crowd > CROWD ? ms * crowd / CROWD : ms;
}

static void ask_later(rg__mirror *mirror)
{
    ask_in(mirror, for_crowd(mirror, interval_ms()));
}

/* ----------------------------------------------------------------- judging */

/* The answer is about this copy and watch if neither has moved meanwhile. */
static bool is_about_now(const rg__mirror *mirror)
{
    return mirror->stage == RG__MIRROR_WATCHING &&
           mirror->guard.asked_at == mirror->revision &&
           mirror->guard.asked_watch == mirror->watch_number;
}

/* A linearizable answer can't be older than what was known before asking. */
static bool saw_other_store(const rg__mirror *mirror)
{
    const rg__guard *guard = &mirror->guard;
    return mirror->stage != RG__MIRROR_LISTING &&
           guard->asked_watch == mirror->watch_number &&
           (guard->revision < guard->asked_at ||
            rg__mirror_is_other(mirror, &guard->meta));
}

static bool is_behind(const rg__mirror *mirror)
{
    return mirror->guard.has_news ||
           mirror->guard.count != (int64_t)mirror->copy.n;
}

/* The copy is what the store had at the guard's revision: what the watch still
 * brings from before that has cancelled out by then. */
static void be_content(rg__mirror *mirror)
{
    rg__guard *guard = &mirror->guard;
    mirror->revision = guard->revision;
    mirror->failures = 0;
    guard->kicks = 0;
    if (mirror->meta.n == 0) { /* made since the list */
        rg__kvs_free(&mirror->meta);
        mirror->meta = guard->meta;
        guard->meta = (rg__kvs){0};
    }
    ask_later(mirror);
}

static void judge(rg__mirror *mirror)
{
    if (saw_other_store(mirror)) {
        rg__log(RG__DEBUG, "etcd",
                "the store has been replaced; listing again");
        ask_later(mirror);
        rg__mirror_relist(mirror);
    } else if (!is_about_now(mirror)) {
        ask_later(mirror);
    } else if (!is_behind(mirror)) {
        be_content(mirror);
    } else {
        ask_in(mirror, for_crowd(mirror, GRACE_MS));
        mirror->guard.is_suspicious = true;
    }
}

/* Deaf: a new watch, through another endpoint; a list if that didn't help. */
static void kick(rg__mirror *mirror)
{
    rg__guard *guard = &mirror->guard;
    rg__log(RG__DEBUG, "etcd", "a watch is deaf at revision %" PRId64,
            mirror->revision);
    ask_later(mirror);
    guard->kicks++;
    if (guard->kicks > 1) {
        guard->kicks = 0;
        rg__mirror_relist(mirror);
        return;
    }
    rg__etcd_failed(mirror->etcd, mirror->watch_endpoint, "a watch is deaf");
    rg__mirror_resume(mirror);
}

/* ------------------------------------------------------------------ asking */

static bool read_guard(void *arg, const json_t *reply)
{
    rg__mirror *mirror = arg;
    rg__guard *guard = &mirror->guard;
    rg__kvs news = {0};
    const bool ok = rg__json_revision(reply, &guard->revision) &&
                    guard->revision > 0 &&
                    rg__kvs_read(rg__txn_range(reply, 0), &news) &&
                    rg__mirror_read_meta(mirror, reply, &guard->meta);
    guard->has_news = news.n > 0;
    guard->count = news.total;
    rg__kvs_free(&news);
    return ok;
}

static void on_guard(void *arg, rg_status st, const rg__answer *answer)
{
    rg__mirror *mirror = arg;
    (void)answer;
    mirror->guard.req = NULL;
    if (st == RG_OK)
        judge(mirror);
    else
        ask_later(mirror);
}

static char *guard_text(const rg__mirror *mirror)
{
    rg__body body = {0};
    rg__body_add(&body, "{\"success\":[{\"request_range\":{");
    rg__body_range(&body, mirror->key, mirror->range_end);
    rg__body_addf(&body, ",\"min_mod_revision\":\"%" PRId64 "\"",
                  mirror->revision + 1);
    rg__body_add(&body, ",\"keys_only\":true,\"limit\":\"1\"}}");
    rg__mirror_add_meta(mirror, &body);
    rg__body_add(&body, "]}");
    return rg__body_take(&body);
}

static void ask(rg__mirror *mirror)
{
    static const rg__call call = {.path = "/v3/kv/txn",
                                  .timeout_ms = RG__ETCD_UNARY_MS,
                                  .slow_ms = RG__ETCD_SLOW_MS,
                                  .read = read_guard,
                                  .done = on_guard};
    rg__guard *guard = &mirror->guard;
    guard->is_expecting = false;
    guard->asked_at = mirror->revision;
    guard->asked_watch = mirror->watch_number;
    guard->req = rg__etcd_post(mirror->etcd, &call, guard_text(mirror),
                               mirror->watch_endpoint, mirror);
    if (guard->req == NULL)
        ask_later(mirror);
}

void rg__guard_on_timer(void *arg)
{
    rg__mirror *mirror = arg;
    if (!mirror->guard.is_suspicious)
        ask(mirror);
    else if (is_about_now(mirror))
        kick(mirror);
    else
        ask_later(mirror);
}

void rg__mirror_crowd(rg__mirror *mirror, int clients)
{
    mirror->guard.crowd = (uint64_t)clients;
}

void rg__mirror_expect(rg__mirror *mirror)
{
    rg__guard *guard = &mirror->guard;
    if (guard->is_expecting || guard->crowd <= CROWD || guard->req != NULL ||
        guard->is_suspicious)
        return; /* it asks soon anyway */
    ask_in(mirror, interval_ms() + for_crowd(mirror, GRACE_MS));
    guard->is_expecting = true;
}

void rg__guard_heard(rg__mirror *mirror)
{
    if (mirror->guard.is_expecting)
        ask_later(mirror);
}

void rg__guard_start(rg__mirror *mirror)
{
    if (mirror->guard.req == NULL && !rg__timer_is_set(mirror->guard.timer))
        ask_later(mirror);
}

void rg__guard_watch(rg__mirror *mirror, int64_t revision)
{
    if (mirror->guard.req != NULL)
        return;
    if (revision < mirror->revision) /* it lags, or the store was wiped */
        ask_in(mirror, 0);
    else if (mirror->guard.kicks > 0) /* did the new watch help? */
        ask_in(mirror, for_crowd(mirror, GRACE_MS));
}
