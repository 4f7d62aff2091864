/* What follows from notices (elastic/notice): this host drains, in time.
 *
 *   a source announces ─> wait until --notice-lead before the host goes
 *        └─ withdrawn: forgotten   └─> drain, bounded by that time
 *
 * A host that drains by a notice says so in its record: others may have one at
 * the same moment, and the leader waits a little for them, so that they leave
 * in one change. When all have one, the leader stops the job, with the step
 * that is under way. So does the host whose etcd would go with it. */
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/leaving/leaving_parts.h"

#include <jansson.h>

#include "elastic/notice/notice.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define LEAST_MS         2000 /* that a drain gets even when its time is over */
#define PATIENCE_MOST_MS 10000
#define RESERVE_MS       5000 /* of the time left: to end workers, and to go */

/* The notice that counts: the one that ends the host first. */
typedef struct due {
    rg__source_view source;
    uint64_t end_ns, begin_ns; /* the host goes; it begins to leave */
} due;

static bool does_count(const rg__agent *a, const rg__notice *n)
{
    return n->kind == RG__NOTICE_LEAVE ||
           (n->kind == RG__NOTICE_ADVICE && a->params->heeds_advice);
}

static uint64_t end_of(const rg__agent *a, const rg__source_view *v)
{
    const rg__notice *n = v->notice;
    const uint64_t now_ms = (uint64_t)rg__wall_ms();
    if (n->at_ms > now_ms)
        return rg__now_ns() + (n->at_ms - now_ms) * RG__MS;
    if (n->at_ms != 0)
        return rg__now_ns();
    const uint64_t in_ms =
        n->in_ms != 0 ? n->in_ms : a->params->user.deadline_ms;
    return v->seen_ns + in_ms * RG__MS;
}

static due due_of(const rg__agent *a, const rg__source_view *v)
{
    const uint64_t lead_ns = a->params->user.notice_lead_ms * RG__MS;
    due d = {.source = *v, .end_ns = end_of(a, v)};
    if (d.end_ns > lead_ns && !v->notice->is_wanted)
        d.begin_ns = d.end_ns - lead_ns;
    return d;
}

static bool find_due(const rg__agent *a, due *first_p)
{
    bool found = false;
    for (int i = 0; i < rg__notices_count(a->leaving->notices); i++) {
        const rg__source_view v = rg__notices_at(a->leaving->notices, i);
        if (!does_count(a, v.notice))
            continue;
        const due d = due_of(a, &v);
        if (!found || d.begin_ns < first_p->begin_ns ||
            (d.begin_ns == first_p->begin_ns && d.end_ns < first_p->end_ns))
            *first_p = d;
        found = true;
    }
    return found;
}

bool rg__notice_stands(const rg__agent *a)
{
    due d;
    return find_due(a, &d);
}

/* ------------------------------------------------------------------- leave */

/* How long the leader waits for other hosts that have a notice: each asks at
 * its own time, and gets the answer then. */
static uint64_t patience_ms(const rg__agent *a, uint64_t left_ms)
{
    uint64_t ms = a->params->user.notice_every_ms * 3 / 2;
    if (ms > left_ms / 10)
        ms = left_ms / 10;
    if (ms > PATIENCE_MOST_MS)
        ms = PATIENCE_MOST_MS;
    return ms > 0 ? ms : 1;
}

static void leave(rg__agent *a, const due *d)
{
    const rg__source_view *v = &d->source;
    const uint64_t now = rg__now_ns();
    uint64_t left_ms = d->end_ns > now ? (d->end_ns - now) / RG__MS : 0;
    if (left_ms < LEAST_MS)
        left_ms = LEAST_MS;
    const uint64_t fifth_ms = left_ms / 5;
    const uint64_t drain_ms =
        left_ms - (fifth_ms < RESERVE_MS ? fifth_ms : RESERVE_MS);
    a->departure.notice_ms = patience_ms(a, left_ms);
    if (a->params->has_etcd) {
        a->verdict.is_asked = true;
        a->leaving->drain_end_ns = now + drain_ms * RG__MS;
        rg__agent_stop_job(a, 128 + 15,
                           "stopped: host %s is to go (%s: %s), and the job's "
                           "etcd with it",
                           a->params->host, v->name, v->notice->what);
        return;
    }
    char why[RG__TEXT_MAX];
    snprintf(why, sizeof why, "notice of %s: %s; it has %.1f s", v->name,
             v->notice->what, (double)drain_ms / 1000);
    rg__drain_start(a, drain_ms, why);
}

/* Nothing can be done for it: its first failure is the job's end. */
static void pass_over(rg__agent *a, const due *d)
{
    if (!a->leaving->has_passed_over)
        rg__log(RG__WARN, "agent",
                "host %s is to go (%s: %s); a static program can't leave at a "
                "commit, so it runs until then",
                a->params->host, d->source.name, d->source.notice->what);
    a->leaving->has_passed_over = true;
}

void rg__notice_look(void *agent_arg)
{
    rg__agent *a = agent_arg;
    const uint64_t now = rg__now_ns();
    due d;
    if (rg__life_is_over(a)) { /* all sources have been told */
        a->on->settled(a);
        return;
    }
    if (a->departure.is_draining || rg__life_is_ending(a) || a->is_done ||
        !find_due(a, &d))
        return;
    if (a->elastic == 0)
        pass_over(a, &d);
    else if (d.begin_ns > now)
        rg__timer_set(a->leaving->notice_timer, d.begin_ns - now);
    else
        leave(a, &d);
}

static void on_changed(void *arg)
{
    rg__agent *a = arg;
    const uint64_t now = rg__now_ns();
    due d;
    rg__timer_set(a->leaving->notice_timer, 0);
    if (!a->departure.is_draining && !rg__life_is_ending(a) &&
        find_due(a, &d) && d.begin_ns > now)
        rg__log(RG__WARN, "agent",
                "host %s goes in %.0f s (%s: %s) and begins to leave in %.0f s "
                "(--notice-lead)",
                a->params->host, (double)(d.end_ns - now) / 1e9, d.source.name,
                d.source.notice->what, (double)(d.begin_ns - now) / 1e9);
}

void rg__notice_signal(rg__agent *a)
{
    if (rg__notices_have(a->leaving->notices, "kubernetes"))
        a->departure.notice_ms = patience_ms(a, a->params->user.deadline_ms);
}

bool rg__notice_tells(rg__agent *a)
{
    return a->departure.notice_ms != 0 &&
           rg__notices_acknowledge(a->leaving->notices);
}

/* -------------------------------------------------------------------- life */

rg_status rg__notice_open(rg__agent *a)
{
    const rg__notices_params params = {.list = a->params->user.notice,
                                       .base = a->params->user.notice_base,
                                       .dmi = a->params->user.notice_dmi,
                                       .every_ms =
                                           a->params->user.notice_every_ms,
                                       .changed = on_changed,
                                       .arg = a};
    return params.list != NULL
               ? rg__notices_create(a->loop, &params, &a->leaving->notices)
               : RG_OK;
}

void rg__notice_close(rg__agent *a)
{
    if (a->leaving == NULL)
        return;
    rg__notices_destroy(a->leaving->notices);
    a->leaving->notices = NULL;
}

/* ------------------------------------------------------------------ status */

static json_t *notice_json(const rg__agent *a, const rg__source_view *v)
{
    static const char *const kinds[] = {"none", "advice", "leave"};
    static const char *const states[] = {"asked", "answers", "fails"};
    const bool is_there = v->notice->kind != RG__NOTICE_NONE;
    const bool is_due = does_count(a, v->notice);
    const due d = due_of(a, v);
    const int64_t in_ns = (int64_t)(d.end_ns - rg__now_ns());
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:o,s:o}", "source", v->name, "asks",
                     v->asks, "state", states[v->state], "why", v->why,
                     "notice", kinds[v->notice->kind], "what",
                     is_there ? json_string(v->notice->what) : json_null(),
                     "goes_in_s",
                     is_due ? json_real((double)in_ns / 1e9) : json_null());
}

struct json_t *rg__notice_json(const rg__agent *a)
{
    json_t *all = json_array();
    for (int i = 0; i < rg__notices_count(a->leaving->notices); i++) {
        const rg__source_view v = rg__notices_at(a->leaving->notices, i);
        json_array_append_new(all, notice_json(a, &v));
    }
    return all;
}
