/* Opening the job in etcd: a job of that name is joined, made, or in the way;
 * then come the lease and the keys of all/. An agent that is to end before it
 * has its lease takes none, since no other host knows of it yet. */
#include "elastic/agent/wiring.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/hosts/hosts.h"
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"
#include "elastic/agent/workers/workers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/least.h"
#include "sdk/base/log.h"
#include "sdk/base/proof.h"

#define OPEN_NS (10000 * RG__MS) /* etcd is there within, at first */

/* -------------------------------------------------------------------- names */

rg_status rg__open_names(rg__agent *a)
{
    rg_status st = rg__random_bytes(&a->id, sizeof a->id);
    if (st == RG_OK)
        st = rg__random_bytes(a->meta.key, sizeof a->meta.key);
    if (st == RG_OK)
        st = rg__random_name(a->meta.uuid);
    if (st != RG_OK)
        return st;
    a->meta.min = a->params->min;
    a->meta.max = a->params->max;
    a->meta.is_one_host = a->params->is_one_host;
    rg__resume_job(a);
    if (asprintf(&a->prefix, "/regroup/v1/%s/", a->params->job) < 0)
        a->prefix = NULL;
    a->prefix_end = a->prefix != NULL ? rg__prefix_end(a->prefix) : NULL;
    return rg__agent_made(a->prefix_end != NULL);
}

/* ----------------------------------------------------------- lease and keys */

void rg__agent_end_wiped(rg__agent *a)
{
    rg__agent_stop(a, RG__EXIT_STORE,
                   "etcd has lost the keys of job %s: it was wiped, or another "
                   "job of that name took its place; start the job again",
                   a->params->job);
}

static void on_mirror(void *arg, int64_t revision, bool wiped)
{
    rg__agent *a = arg;
    if (wiped) {
        rg__agent_end_wiped(a);
        return;
    }
    if (rg__view_read(a, a->mirror, &a->view) != RG_OK)
        return;
    rg__log(RG__TRACE, "agent", "the view stands at revision %" PRId64,
            revision);
    a->on->view_moved(a);
}

/* What every agent watches. */
static void mirror_keys(rg__agent *a)
{
    char *meta = rg__record_key(a->prefix, RG__KEY(META)), *all = NULL;
    if (asprintf(&all, "%sall/", a->prefix) < 0)
        all = NULL;
    char *end = all != NULL ? rg__prefix_end(all) : NULL;
    const rg_status st = meta != NULL && end != NULL
                             ? rg__mirror_create(a->etcd, all, end, meta,
                                                 on_mirror, a, &a->mirror)
                             : rg__agent_made(false);
    free(meta);
    free(all);
    free(end);
    if (st != RG_OK)
        rg__agent_leave(a, RG__EXIT_SYSTEM, "%s", rg_last_error());
}

static void on_lease(void *arg, rg__lease_event event)
{
    rg__agent *a = arg;
    if (event == RG__LEASE_LOST)
        rg__log(RG__WARN, "agent",
                "the lease of host %s was lost; taking it again",
                a->params->host);
    else if (a->mirror == NULL)
        mirror_keys(a);
    else
        a->on->lease_renewed(a);
}

/* ------------------------------------------------------------- open the job */

void rg__agent_tell_sizes(rg__agent *a)
{
    const rg__fdrecord_sizes sizes = {a->own.min, a->own.max,
                                      a->life.has_world};
    rg__fdstore_put(a->fdstore, RG__FDRECORD_SIZES, &sizes, sizeof sizes, NULL,
                    0);
}

/* Of hosts that are as large as this one. */
static int hosts_for(const rg__agent *a, int workers)
{
    return workers / (a->params->slots > 0 ? a->params->slots : 1);
}

void rg__agent_take_lease(rg__agent *a, const rg__meta *meta)
{
    a->meta = *meta;
    memcpy(a->key, meta->key, sizeof a->key);
    a->own.min = meta->min;
    a->own.max = meta->max;
    rg__end_bound_opening(a, 0);
    if (a->life.agents == 1)
        rg__agent_tell_sizes(a); /* the next one may have others by now */
    const int must_come = hosts_for(a, meta->min),
              are_here = a->life.hosts_before;
    const int ttl_s =
        rg__beat_lease_s(must_come > are_here ? must_come : are_here);
    const rg_status st =
        a->life.lease_id == 0
            ? rg__lease_create(a->etcd, ttl_s, on_lease, a, &a->lease)
            : rg__lease_resume(a->etcd, a->life.lease_id, ttl_s, on_lease, a,
                               &a->lease);
    if (st != RG_OK) {
        rg__agent_leave(a, RG__EXIT_SYSTEM, "%s", rg_last_error());
        return;
    }
    a->life.lease_id = rg__lease_id(a->lease);
    a->on->noted(a);
}

static void refuse_running(rg__agent *a, const char *host, int max)
{
    rg__agent_leave(a, RG__EXIT_STORE,
                    "a job named %s runs already%s%s, or ran less than %d s "
                    "ago; choose another --job, or end that one with `regroup "
                    "stop %s`",
                    a->params->job, host[0] != '\0' ? ", on host " : "", host,
                    rg__beat_lease_s(hosts_for(a, max)), a->params->job);
}

/* Whether there is an answer to go on with. */
static bool goes_on(rg__agent *a, rg_status st)
{
    return !rg__life_is_ending(a) && rg__agent_has_answer(a, st);
}

static void on_meta(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    if (!goes_on(a, st))
        return;
    rg__snapshot found;
    rg__snapshot_read(&found, a->prefix, reply->kv, reply->kv_count);
    const bool is_ours = found.meta.create_revision != 0 &&
                         strcmp(found.meta.uuid, a->meta.uuid) == 0;
    if (reply->succeeded || is_ours)
        rg__agent_take_lease(a, &a->meta);
    else if (found.meta.create_revision == 0)
        rg__agent_leave(a, RG__EXIT_STORE,
                        "etcd holds a record of job %s that is not Regroup's "
                        "or another version's; choose another --job",
                        a->params->job);
    else if (a->params->creates_job)
        refuse_running(a, "", found.meta.max);
    else if (found.meta.is_one_host)
        rg__agent_leave(
            a, RG__EXIT_USAGE,
            "job %s is on one host, and its agent listens for no others; start "
            "it with `regroup run --etcd-listen ADDRESS` to let others join",
            a->params->job);
    else
        rg__agent_take_lease(a, &found.meta);
    rg__snapshot_free(&found);
}

static void write_meta(rg__agent *a)
{
    rg__resume_note_job(a);
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(META), 0);
    rg__job_put(&t, RG__KEY(META), rg__meta_text(&a->meta), 0);
    rg__job_get(&t, RG__ELSE, RG__KEY(META));
    rg__job_send(&t, on_meta, a, write_meta);
}

static void on_cleared(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    if (!goes_on(a, st))
        return;
    if (reply->succeeded)
        write_meta(a);
    else
        rg__open_job(a); /* it has changed: look at it again */
}

/* What a job of that name left behind, as long as nothing is added to it. */
static void clear_old(rg__agent *a, int64_t revision)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__txn_if_unchanged(t.txn, a->prefix, a->prefix_end, revision);
    rg__txn_delete(t.txn, a->prefix, a->prefix_end);
    rg__job_send(&t, on_cleared, a, rg__open_job);
}

static const rg__kv *find_key(const rg__agent *a, const rg__txn_reply *job,
                              const char *what)
{
    for (size_t i = 0; i < job->kv_count; i++)
        if (strcmp(job->kv[i].key + strlen(a->prefix), what) == 0)
            return &job->kv[i];
    return NULL;
}

static bool does_fit(rg__agent *a, const rg__txn_reply *job)
{
    const rg__kv *spec = find_key(a, job, "shape");
    return spec == NULL || rg__job_spec_fits(a, spec);
}

/* Hosts that have an agent. */
static const rg__host_record *present(const rg__snapshot *s)
{
    for (int i = 0; i < s->hosts; i++)
        if (!s->host[i].is_gone)
            return &s->host[i];
    return NULL;
}

static void refuse_unended(rg__agent *a)
{
    rg__agent_leave(a, RG__EXIT_STORE,
                    "job %s has not ended, though none of its hosts is in "
                    "etcd: they may still be training, cut off from it; if you "
                    "know that it is dead, start with --replace-job, or wait "
                    "for `regroup gc`; else choose another --job",
                    a->params->job);
}

/* A lease that has lapsed is no death: only the operator may remove a job that
 * has not ended. That is for a job that has had a world: two agents that are
 * started together begin one job. */
static bool is_dead(const rg__agent *a, const rg__snapshot *old)
{
    return a->params->replaces_job &&
           (a->params->creates_job || old->cur.generation != 0);
}

static void judge_old(rg__agent *a, const rg__snapshot *old,
                      const rg__txn_reply *job)
{
    const rg__host_record *host = present(old);
    const bool is_over = rg__snapshot_is_over(old);
    if (host != NULL && a->params->creates_job)
        refuse_running(a, host->name, old->meta.max);
    else if (host != NULL && is_over)
        rg__agent_leave(a, RG__EXIT_STORE,
                        "job %s has ended; wait until its agents are gone, or "
                        "choose another --job",
                        a->params->job);
    else if (host == NULL && (is_over || is_dead(a, old)))
        clear_old(a, job->revision);
    else if (host == NULL && (a->params->creates_job || old->is_static))
        refuse_unended(a);
    else if (does_fit(a, job))
        write_meta(a);
}

static void judge_job(rg__agent *a, const rg__txn_reply *reply)
{
    rg__snapshot old;
    rg__snapshot_read(&old, a->prefix, reply->kv, reply->kv_count);
    if (reply->kv_count == 0)
        write_meta(a);
    else if (find_key(a, reply, "meta") == NULL)
        clear_old(a, reply->revision); /* of a dead job, written too late */
    else if (old.meta.create_revision == 0)
        write_meta(a); /* of another host: it says so */
    else if (strcmp(old.meta.uuid, a->meta.uuid) == 0)
        rg__agent_take_lease(a, &a->meta); /* the agent before us wrote it */
    else
        judge_old(a, &old, reply);
    rg__snapshot_free(&old);
}

static void on_all_looked(void *arg, rg_status st, const rg__txn_reply *reply)
{
    if (goes_on(arg, st))
        judge_job(arg, reply);
}

static void look_at_all(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_get_all(&t);
    rg__job_send(&t, on_all_looked, a, look_at_all);
}

/* One host that has an agent says as much as a thousand. */
static bool is_first_gone(const rg__agent *a, const rg__txn_reply *reply)
{
    rg__snapshot found;
    rg__snapshot_read(&found, a->prefix, reply->kv, reply->kv_count);
    const bool is_gone = found.hosts > 0 && present(&found) == NULL;
    rg__snapshot_free(&found);
    return is_gone;
}

static void on_looked(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    if (!goes_on(a, st))
        return;
    a->life.hosts_before = (int)(reply->matched - (int64_t)reply->kv_count) + 1;
    if (a->life.hosts_before > 1 && is_first_gone(a, reply))
        look_at_all(a);
    else
        judge_job(a, reply);
}

void rg__open_job(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_get_few_hosts(&t);
    rg__job_send(&t, on_looked, a, rg__open_job);
    if (a->life.opening_ns == 0)
        a->life.opening_ns = rg__now_ns();
    rg__end_bound_opening(a, OPEN_NS);
}

/* When a thousand agents come at once, etcd answers them late: it is waited for
 * as long as their first world is. */
void rg__open_on_late(rg__agent *a)
{
    const uint64_t waited_ns = rg__now_ns() - a->life.opening_ns;
    const uint64_t most_ns = a->params->user.start_timeout_ms * RG__MS;
    if (waited_ns < most_ns && rg__etcd_is_slow(a->etcd)) {
        rg__end_bound_opening(a, rg__least(OPEN_NS, most_ns - waited_ns));
        return;
    }
    rg__agent_leave(a, RG__EXIT_STORE,
                    "job %s can't be opened: etcd at %s %s for %d s: %s%s",
                    a->params->job, a->params->etcd.endpoints,
                    rg__etcd_lack(a->etcd), (int)(waited_ns / (1000 * RG__MS)),
                    rg__etcd_why(a->etcd),
                    rg__etcd_is_refusing(a->etcd) ? "" : "; is it running?");
}
