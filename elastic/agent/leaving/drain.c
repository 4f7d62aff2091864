/* Leaving a job that goes on elsewhere.
 *
 *   drain   our record says so; the leader proposes a world without us; our
 *           workers leave at the commit that ends their step; we go when that
 *           world is decided and no host fetches a commit from us
 *   leave   at once: workers are ended, the others go back to their last commit
 *
 *   fail    the same with a code, for what the agent can't survive; the last
 *           host's is the job's end
 *
 * In each case the last record of this host says that it is gone, so that no
 * host waits for its lease. The record outlives us by that lease, and stays for
 * good if the world would miss us. */
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/leaving/leaving_parts.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/vault/vaults.h"

#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

/* The world that goes on without us may begin with a commit from our vault. If
 * that world is broken before it has stored the commit, the next decision may
 * name us again, however long it takes. */
bool rg__drain_is_needed(const rg__agent *a)
{
    const rg__line *line = rg__view_line(a);
    int fetched = 0;
    for (int i = 0; line != NULL && i < line->copies; i++)
        fetched += line->copy[i].from == a->id;
    if (fetched == 0)
        return false;
    if (a->store->served.generation != line->generation ||
        a->store->served.sent < fetched)
        return true;
    if (a->store->served.stored >= fetched)
        return false;
    if (a->aborted >= line->generation)
        return true;
    /* a copy that went wrong is asked for again within the budget */
    return rg__now_ns() - a->store->served.at_ns < rg__patience_ns(a->params);
}

static bool has_left(const rg__agent *a)
{
    const rg__proposal *decided = rg__view_decided(a);
    if (rg__view_has_host(a, a->id) ||
        (decided != NULL && a->delivered < decided->generation))
        return false;
    for (int i = 0; i < a->params->slots; i++)
        if (a->slot[i].w.entered != 0)
            return false;
    return !rg__drain_is_needed(a);
}

static bool has_gone(const rg__agent *a, uint64_t host)
{
    const rg__host_record *record = rg__snapshot_host(&a->known, host);
    return record != NULL && record->is_gone;
}

static bool is_seen_to_drain(const rg__agent *a)
{
    const rg__host_record *record = rg__snapshot_host(&a->known, a->id);
    return record != NULL && record->is_draining;
}

bool rg__drain_is_alone(const rg__agent *a)
{
    const rg__proposal *world = rg__snapshot_decided(&a->known);
    const rg__host_record *me = rg__snapshot_host(&a->known, a->id);
    if (!rg__view_i_lead(a) || !rg__leader_sees_all(a) || me == NULL)
        return false;
    for (int i = 0; i < a->known.hosts; i++)
        if (!a->known.host[i].is_gone && &a->known.host[i] != me)
            return false;
    for (int i = 0; world != NULL && i < world->host_count; i++)
        if (world->host[i].id != a->id && !has_gone(a, world->host[i].id))
            return false;
    return true;
}

/* No change is announced where all ranks begin again: they end with the next
 * commit, and the launch that follows has no rank here. */
static void end_launch_at_commit(rg__agent *a)
{
    if (a->params->is_mpi && a->view.begun != 0 && a->aborted < a->delivered)
        rg__generation_announce(a, a->delivered + 1);
}

void rg__drain_look(void *agent_arg)
{
    rg__agent *a = agent_arg;
    if (rg__life_is_ending(a) || a->is_done || a->leaving->is_stopping)
        return;
    end_launch_at_commit(a);
    /* hosts that joined before our record told of it are known with the
     * record */
    const bool is_last = rg__drain_is_alone(a) && is_seen_to_drain(a);
    if (is_last && a->departure.notice_ms == 0 &&
        rg__now_ns() < a->leaving->drain_end_ns && rg__agent_awaits_step(a)) {
        rg__timer_set(a->leaving->drain_timer, 10 * RG__MS);
        return;
    }
    if (has_left(a) ||
        (is_last && a->departure.notice_ms == 0)) /* else the job ends */
        rg__agent_leave(a, 0, "host %s has left the job", a->params->host);
    else if (a->leaving->outage_ns != 0)
        rg__agent_leave(a, 0,
                        "host %s leaves without waiting for a commit: nothing "
                        "goes on here without etcd",
                        a->params->host);
    else if (rg__now_ns() >= a->leaving->drain_end_ns)
        rg__agent_leave(a, 0,
                        "host %s leaves at once: the job did not let it go "
                        "before the deadline; steps since the last commit are "
                        "done again",
                        a->params->host);
    else
        rg__timer_set(a->leaving->drain_timer, 10 * RG__MS);
}

void rg__drain_start(rg__agent *a, uint64_t deadline_ms, const char *why)
{
    if (a->departure.is_draining || rg__life_is_ending(a))
        return;
    a->departure.is_draining = true;
    a->leaving->drain_end_ns = rg__now_ns() + deadline_ms * RG__MS;
    a->on->noted(a);
    rg__log(RG__WARN, "agent", "host %s drains: %s", a->params->host, why);
    rg__publish(a);
    rg__timer_set(a->leaving->drain_timer, 0);
}

/* The key of a drain that was asked for before this agent began is old. */
static void forget_old(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_delete(&t, RG__KEY(DRAIN, 0, a->params->host));
    rg__job_send(&t, NULL, NULL, forget_old);
}

void rg__drain_follow(rg__agent *a, bool is_first)
{
    for (int i = 0; i < a->view.drains; i++) {
        const rg__drain *d = &a->view.drain[i];
        if (strcmp(d->host, a->params->host) != 0)
            continue;
        if (is_first)
            forget_old(a);
        else if (d->code != 0)
            rg__agent_leave(a, d->code, "%s", d->why);
        else if (rg__view_is_static(a))
            rg__log(RG__WARN, "agent",
                    "a static program can't be drained; stop the job instead");
        else
            rg__drain_start(a, d->deadline_ms, "asked by `regroup drain`");
    }
}

/* -------------------------------------------------------------------- leave */

/* The last host to fail ends the job: no host could go on with it. */
static void resign(rg__agent *a)
{
    if (!rg__view_i_lead(a))
        return;
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_create(&t, RG__KEY(LEADER), a->view.leader_token);
    rg__job_delete(&t, RG__KEY(LEADER));
    if (a->verdict.code != 0 && rg__drain_is_alone(a)) {
        rg__job_if_mod(&t, RG__KEY(CUR), a->known.cur.mod_revision);
        rg__agent_send_end(a, &t, resign);
    } else {
        rg__job_send(&t, NULL, NULL, resign);
    }
}

void rg__leave_say(rg__agent *a)
{
    rg__failpoint("agent.leave", -1, 0, a->delivered);
    a->departure.is_leaving = true;
    if (a->verdict.code == 0 && a->verdict.why[0] != '\0')
        rg__log(RG__WARN, "agent", "%s", a->verdict.why);
    forget_old(a);
    resign(a);
    rg__publish(a); /* that this host is gone */
}
