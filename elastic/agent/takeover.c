/* Taking over from an agent that was killed. The supervisor has started us with
 * its records. We are the same incarnation, under the same lease.
 *
 *   adopt     vault, slots, workers, output and sockets, from the records; each
 *             worker is told AGAIN
 *   stand     every worker says where it stands, or is dead; what the agent
 *             before had heard and not acted on is lost, so it counts nowhere
 *   view      etcd answers, the lease is held, the job's keys are here: losses
 *             that no other host may know are published (again), and so is that
 *             the workers were told to leave; a proposal that was handed out to
 *             some members only is given up
 *
 * Without etcd we wait before the last step: members go on meanwhile, as
 * always. */
#include "elastic/agent/wiring.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/checkpoint/checkpoints.h"
#include "elastic/agent/generation/generation.h"
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/agent/output/output.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"
#include "elastic/agent/vault/vaults.h"
#include "elastic/agent/workers/workers.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/log.h"

/* What the next agent has as this one had it. */
#define KEPT(X)                                                                \
    X(id)                                                                      \
    X(life) /* pages of the dead are gone */                                   \
    X(meta)                                                                    \
    X(address)                                                                 \
    X(port) /* known to others */                                              \
    X(elastic)                                                                 \
    X(verdict)                                                                 \
    X(is_done)                                                                 \
    X(departure)                                                               \
    X(is_paused)                                                               \
    X(spec)

/* All of the agent's other records hang on it. */
typedef struct saved_agent {
#define X(field) __typeof__(((rg__agent *)NULL)->field) field;
    KEPT(X)
#undef X
    bool has_published;
    rg__leaving_saved leaving;
    rg__served served;
} saved_agent;

void rg__resume_note(rg__agent *a)
{
    if (a->life.lease_id == 0)
        return; /* nothing to take over yet */
    const saved_agent saved = {
#define X(field) .field = a->field,
        KEPT(X)
#undef X
            .has_published = rg__publish_has_been(a),
        .leaving = rg__leaving_save(a), .served = a->store->served};
    rg__fdstore_put(a->fdstore, "agent", &saved, sizeof saved, NULL, 0);
}

void rg__resume_note_job(rg__agent *a)
{
    rg__fdstore_put(a->fdstore, "job", &a->meta, sizeof a->meta, NULL, 0);
}

void rg__resume_job(rg__agent *a)
{
    rg__fdstore_read(a->fdstore, "job", &a->meta, sizeof a->meta);
}

bool rg__resume_names(rg__agent *a)
{
    saved_agent was;
    if (rg__fdstore_read(a->fdstore, "agent", &was, sizeof was) == NULL)
        return false;
#define X(field) a->field = was.field;
    KEPT(X)
#undef X
    a->life.agents++;
    a->life.state = RG__LIFE_OPENING;
    if (rg__life_ends(was.life.state))
        a->verdict.code = 0; /* until it ends here as well */
    a->spec.is_asking = false;
    a->store->served = was.served;
    memcpy(a->key, was.meta.key, sizeof a->key);
    rg__publish_resume(a, was.has_published);
    rg__leaving_resume(a, &was.leaving);
    rg__life_step(a, RG__LIFE_ON_ADOPT);
    return true;
}

/* ------------------------------------------------------------------- stand */

static void on_meta(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__agent *a = arg;
    if (!rg__agent_has_answer(a, st))
        return;
    rg__snapshot found;
    rg__snapshot_read(&found, a->prefix, reply->kv, reply->kv_count);
    if (found.meta.create_revision != 0 &&
        strcmp(found.meta.uuid, a->meta.uuid) == 0)
        rg__agent_take_lease(a, &found.meta);
    else
        rg__agent_end_wiped(a);
    rg__snapshot_free(&found);
}

/* Is it still the job that it was? */
static void read_meta(rg__agent *a)
{
    rg__txn_draft t = rg__job_txn(a);
    rg__job_get(&t, RG__THEN, RG__KEY(META));
    rg__job_send(&t, on_meta, a, read_meta);
}

/* A worker whose Regroup thread does not run yet says it later. */
static bool stands(const rg__slot *s)
{
    return !rg__slot_is_ready(s) || s->w.has_stood;
}

void rg__resume_look(rg__agent *a)
{
    if (a->life.state != RG__LIFE_STANDING)
        return;
    for (int i = 0; i < a->params->slots; i++)
        if (!stands(&a->slot[i]))
            return;
    rg__life_step(a, RG__LIFE_ON_VIEW);
    rg__slots_abort_losses(a);
    read_meta(a);
}

/* ------------------------------------------------------------------- adopt */

static int adopt(rg__agent *a)
{
    int workers = 0;
    for (int i = 0; i < a->params->slots; i++)
        rg__slot_resume(&a->slot[i]);
    rg__outputs_resume(a);
    for (int i = 0; i < a->params->slots; i++) {
        rg__worker_resume(&a->slot[i]);
        workers += a->slot[i].w.pid != 0;
    }
    for (int i = 0; i < a->params->slots; i++)
        rg__slot_resume_child(&a->slot[i]);
    rg__mpirun_resume(a);
    return workers;
}

void rg__resume_begin(rg__agent *a)
{
    saved_agent was;
    if (rg__fdstore_read(a->fdstore, "agent", &was, sizeof was) == NULL)
        return;
    rg__resume_note(a);
    const int workers = adopt(a);
    rg__fdstore_forget_rest(a->fdstore);
    rg__log(RG__WARN, "agent", "took over %d worker%s from an agent that died",
            workers, rg__plural(workers));
    rg__slots_pause(a,
                    false); /* the supervisor runs, and it is paused as well */
    rg__workers_ping(a);
    if (rg__life_ends(was.life.state)) {
        rg__checkpoint_stop(a);
        rg__agent_stop(a, was.verdict.code, "%s", was.verdict.why);
    }
    rg__life_step(a, RG__LIFE_ON_STAND);
    rg__resume_look(a);
}

/* -------------------------------------------------------------------- view */

static bool is_handed_out(const rg__slot *s, uint64_t generation)
{
    return s->w.pending == generation || s->w.built == generation;
}

/* Members of one host meet in one control segment, which the agent before made
 * and handed to those that it told: the others can't be told any more. */
static void judge_proposal(rg__agent *a, const rg__proposal *p)
{
    char text[RG__CAUSE_MAX];
    int asked = 0, missing = 0;
    for (int i = 0; i < p->size; i++) {
        rg__slot *s = rg__slot_of(a, p->member[i]);
        if (s == NULL || !rg__slot_is_alive(s))
            continue;
        asked += s->w.asked == p->generation;
        missing += !is_handed_out(s, p->generation);
        if (p->is_announced && is_handed_out(s, p->generation))
            atomic_store(&s->w.page->announce, p->generation);
    }
    if (asked == 0)
        return;
    rg__generation_taken_up(a, p->generation);
    if (!p->is_announced)
        rg__generation_abort(a, p->generation - 1);
    if (missing == 0)
        return;
    snprintf(text, sizeof text, "%.40s: its agent died while it prepared",
             a->params->host);
    rg__publish_reason(a, p->generation, &a->slot[0], text);
}

static bool was_told(rg__agent *a, uint64_t generation)
{
    for (int i = 0; i < a->params->slots; i++)
        if (rg__slot_is_alive(&a->slot[i]) &&
            a->slot[i].w.decided >= generation)
            return true;
    return false;
}

/* All that took it up may be dead, but they have committed in it since. */
static bool has_begun(const rg__ack *now, uint64_t generation)
{
    for (int i = 0; i < now->count; i++)
        if (now->held[i].id.generation >= generation)
            return true;
    return false;
}

/* Newer commits may have replaced its commit since: no host fetches it. */
static void take_up_decision(rg__agent *a)
{
    const rg__line *line = rg__view_line(a);
    if (line == NULL)
        return;
    rg__ack now = {0};
    a->delivered = line->generation; /* what was decided, of the vault */
    now.count = rg__vault_held(a, now.held);
    const bool is_taken_up =
        was_told(a, line->generation) || has_begun(&now, line->generation);
    rg__ack_free(&now);
    const rg__proposal *p = rg__snapshot_gen(&a->view, line->generation);
    if (!is_taken_up)
        a->delivered = 0;
    if (!is_taken_up || p == NULL)
        return;
    rg__replication_begin(a, p);
    rg__generation_pass_on(a);
}

static bool was_told_to_leave(const rg__slot *s, const rg__proposal *p)
{
    return rg__slot_is_alive(s) && s->w.page != NULL &&
           rg__view_has_place(p, s) &&
           atomic_load(&s->w.page->abort) >= p->generation;
}

/* The agent before had a reason to end the generation, and was killed before
 * etcd had heard it. Members that left because of it would wait forever. */
static void end_what_was_left(rg__agent *a)
{
    char text[RG__CAUSE_MAX];
    const rg__proposal *p = rg__view_decided(a);
    const rg__cur *cur = &a->view.cur;
    if (p == NULL || cur->phase == RG__GEN_DONE ||
        (cur->generation != p->generation &&
         !rg__view_is_only_announced(a, cur->generation)) ||
        rg__publish_knows_reason(a, p->generation))
        return;
    int i = 0;
    while (i < a->params->slots && !was_told_to_leave(&a->slot[i], p))
        i++;
    if (i == a->params->slots)
        return;
    rg__generation_abort(a, p->generation);
    snprintf(text, sizeof text, "%.40s: its agent died before it said why",
             a->params->host);
    rg__publish_reason(a, p->generation, &a->slot[i], text);
}

void rg__resume_view(rg__agent *a)
{
    if (a->life.state != RG__LIFE_VIEWING)
        return;
    rg__life_step(a, RG__LIFE_ON_WORK);
    a->is_done = false; /* the keys say it */
    rg__leaving_go_on(a);
    const rg__proposal *p = rg__view_proposed(a);
    for (int i = 0; i < a->params->slots; i++)
        rg__slot_publish_loss(&a->slot[i]);
    take_up_decision(a);
    end_what_was_left(a);
    if (p != NULL)
        judge_proposal(a, p);
    rg__generation_try_begin(a);
    rg__generation_try_fin(a);
}
