/* The right to give a checkpoint its name.
 *
 * A checkpoint counts only after a claim in etcd: a txn that applies while
 * `cur` is what this agent has seen, with the commit on its lineage and this
 * host in its world. A host that was left out meanwhile can't claim, and a host
 * that can't claim removes what it wrote. So when job and etcd are gone, the
 * names in the directory alone say what counts. A durable checkpoint is then
 * published for the workers and for people. A claim has the hash of the file's
 * head: if all hosts are restarted before the checkpoint is published, a worker
 * that has loaded the file proves that it exists. */
#include "elastic/agent/checkpoint/saver.h"
#include "elastic/agent/checkpoint/writer.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"

#include <inttypes.h>
#include <string.h>

#include "elastic/member/resume.h"
#include "sdk/base/clock.h"
#include "sdk/base/log.h"

static rg__claim claim_of(const rg__saver *v)
{
    rg__claim claim = {.serial = v->word.serial,
                       .commit = v->word.commit,
                       .hash = v->word.hash};
    memcpy(claim.op, v->word.op, sizeof claim.op);
    return claim;
}

int64_t rg__claim_revision(const rg__saver *v)
{
    const rg__claim *c = rg__snapshot_claim(&v->a->view, v->where);
    return c != NULL ? c->mod_revision : 0;
}

/* -------------------------------------------------------------- publishing */

static rg__saved saved_of(const rg__saver *v)
{
    const bool is_last = rg__same_commit(v->word.commit, v->tried) ||
                         (v->a->is_done && !v->has_next);
    rg__saved saved = {.serial = v->word.serial,
                       .commit = v->word.commit,
                       .hash = v->word.hash,
                       .at_ms = rg__wall_ms(),
                       .is_last = is_last};
    snprintf(saved.file, sizeof saved.file, "%s/%s", rg__saver_dir(v),
             v->word.name);
    snprintf(saved.host, sizeof saved.host, "%s", v->a->params->host);
    return saved;
}

/* The view shows it soon, but the agent may end before that. */
static void show_at_once(rg__saver *v)
{
    rg__saved *saved = &v->a->view.saved;
    const int64_t mod_revision = saved->mod_revision;
    *saved = saved_of(v);
    saved->mod_revision = mod_revision;
}

static void on_published(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__saver *v = arg;
    v->req = NULL;
    v->phase = SAVER_SEALING;
    rg__last_is_made(v);
    if (st != RG_OK)
        rg__saver_fail(v, rg_last_error());
    else if (!reply->succeeded)
        rg__log(RG__INFO, "agent",
                "a newer checkpoint than that of step %" PRIu64
                " is known already",
                v->word.commit.step);
    else
        show_at_once(v);
    rg__saver_rest(v);
}

/* Guarded by the claim: a host that has claimed it since has a newer commit. */
void rg__claim_publish(rg__agent *a)
{
    rg__saver *v = a->saver;
    const rg__claim claim = claim_of(v);
    const rg__saved saved = saved_of(v);
    if (v->phase != SAVER_PUBLISHING) { /* it was given up meanwhile */
        rg__saver_rest(v);
        return;
    }
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_value(&t, RG__KEY(CLAIM, v->where), rg__claim_text(&claim));
    rg__job_put(&t, RG__KEY(CHECKPOINT), rg__saved_text(&saved), 0);
    v->req = rg__job_send(&t, on_published, v, rg__claim_publish);
}

void rg__claim_sealed(rg__saver *v)
{
    rg__log(RG__INFO, "agent", "step %" PRIu64 " is durable: %s/%s",
            v->word.commit.step, rg__saver_dir(v), v->word.name);
    v->error[0] = v->said[0] = '\0';
    v->phase = SAVER_PUBLISHING;
    rg__claim_publish(v->a);
}

/* ---------------------------------------------------------------- the claim */

static void order_sealing(rg__saver *v)
{
    const rg__writer_order order = {.kind = WRITER_SEAL};
    v->phase = SAVER_SEALING;
    if (!rg__saver_order(v, &order))
        rg__saver_hang_up(v);
}

static bool is_in_world(const rg__agent *a)
{
    return rg__proposal_host_index(rg__view_decided(a), a->id) >= 0 ||
           a->departure.is_draining; /* it left in order, at a commit */
}

static uint64_t newest_decision(const rg__saver *v)
{
    const rg__line *line = rg__view_line(v->a);
    return line != NULL ? line->generation : 0;
}

/* With each decision: their records may be gone when the file is written. */
void rg__claim_follow(rg__saver *v)
{
    v->is_off = v->is_off || !rg__resume_stays_on_lineage(
                                 &v->a->view, v->word.commit, v->followed);
    v->followed = newest_decision(v);
}

void rg__claim_begin(rg__saver *v)
{
    v->is_off = !rg__resume_is_on_lineage(&v->a->view, v->word.commit);
    v->followed = newest_decision(v);
}

/* NULL: as far as the view shows, it may be sealed. */
static const char *why_not(const rg__saver *v)
{
    const rg__agent *a = v->a;
    const rg__claim *newest = rg__snapshot_claim(&a->view, v->where);
    if (!is_in_world(a))
        return "the job went on without this host";
    if (v->is_off)
        return "the job went back to an earlier commit";
    if (rg__claim_revision(v) != v->claim_revision)
        return "another host has claimed a newer one";
    if (newest != NULL && rg__resume_is_later(newest->commit, v->word.commit))
        return "a later step is there already"; /* it waited for long */
    return NULL;
}

static bool is_ours(const rg__saver *v, const rg__txn_reply *reply)
{
    rg__snapshot found;
    rg__snapshot_read(&found, v->a->prefix, reply->kv, reply->kv_count);
    const rg__claim *c = rg__snapshot_claim(&found, v->where);
    const bool is_ours = c != NULL && c->serial == v->word.serial &&
                         strcmp(c->op, v->word.op) == 0;
    rg__snapshot_free(&found);
    return is_ours;
}

static void on_claimed(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__saver *v = arg;
    v->req = NULL;
    if (v->phase != SAVER_CLAIMING) { /* its writer was killed meanwhile */
        rg__saver_rest(v);
        return;
    }
    v->phase = SAVER_WRITTEN;
    if (st != RG_OK) {
        rg__saver_fail(v, rg_last_error());
        rg__saver_give_up(v, "etcd refuses its claim");
    } else if (reply->succeeded || is_ours(v, reply)) {
        order_sealing(v);
    } else {
        rg__claim_if_decided(v); /* `cur` has moved on, or the claim */
    }
    rg__saver_rest(v);
}

static void claim_again(rg__agent *a)
{
    if (a->saver->phase == SAVER_WRITTEN)
        rg__claim_if_decided(a->saver);
}

static void claim(rg__saver *v)
{
    rg__agent *a = v->a;
    const rg__key key = RG__KEY(CLAIM, v->where);
    const rg__claim mine = claim_of(v);
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_mod(&t, RG__KEY(CUR), a->view.cur.mod_revision);
    rg__job_if_mod(&t, key, v->claim_revision);
    rg__job_put(&t, key, rg__claim_text(&mine), 0);
    rg__job_get(&t, RG__ELSE, key);
    v->req = rg__job_send(&t, on_claimed, v, claim_again);
    if (v->req == NULL)
        return;
    v->phase = SAVER_CLAIMING;
    v->cur_revision = a->view.cur.mod_revision;
}

/* A job that ends decides no more. */
static bool is_settled(const rg__agent *a)
{
    return a->view.cur.phase == RG__GEN_DECIDED ||
           a->view.cur.phase == RG__GEN_DONE || rg__life_is_ending(a);
}

/* The view decides only what to try; the txn decides. One that was refused is
 * tried again once the view has moved on as well. */
void rg__claim_if_decided(rg__saver *v)
{
    const rg__cur *cur = &v->a->view.cur;
    if (!is_settled(v->a))
        return;
    const char *why = why_not(v);
    if (why != NULL)
        rg__saver_give_up(v, why);
    else if (cur->mod_revision != v->cur_revision)
        claim(v);
}
