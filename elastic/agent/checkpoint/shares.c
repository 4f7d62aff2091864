/* The shards of other hosts in a checkpoint. All hosts copy the commit when it
 * is asked for, each its own shards. Once the host of rank 0 has made the file
 * it says so (all/order); the others write files of their own beside it, whose
 * layout follows from buffers and world, with the hashes of their pieces, which
 * go into the head of rank 0's file. Then they answer that they have done so
 * (all/share/<host>). When a host fails or is gone, there is no checkpoint; a
 * copy that is not ordered is dropped. */
#include "elastic/agent/checkpoint/saver.h"
#include "elastic/agent/checkpoint/writer.h"
#include "elastic/agent/base/txn.h"
#include "elastic/agent/base/view.h"

#include <inttypes.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define WRITE_NS (600000 * RG__MS) /* for all hosts to write */
#define HOLD_NS  (60000 * RG__MS)  /* a copy, until it is ordered */
#define YIELD_NS (1000 * RG__MS)   /* the same while another request waits */
#define LATE_NS  (2000 * RG__MS)   /* a worker's request, behind the order */
#define FULL_NS  (10 * RG__MS)     /* the writer's socket is full */

static const rg__proposal *world_of(const rg__saver *v, rg__commit_id id)
{
    return rg__snapshot_gen(&v->a->view, id.generation);
}

/* ------------------------------------------------------- the host of rank 0 */

/* Refused while the view does not show the last order yet. */
static void on_ordered(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__saver *v = ((rg__agent *)arg)->saver;
    if (st != RG_OK || reply->succeeded || !v->is_ordered)
        return;
    v->must_order = true;
    rg__timer_set(v->patience, FULL_NS);
}

/* Order the shards of other hosts or, when none are ordered any more, let them
 * drop theirs: without a lease, since that holds after this agent's end. */
static void order(rg__agent *a)
{
    const rg__saver *v = a->saver;
    rg__order m = {
        .serial = v->word.serial, .commit = v->now.commit, .host = a->id};
    if (v->is_ordered)
        snprintf(m.op, sizeof m.op, "%s", v->word.op);
    rg__txn_draft t = rg__job_txn(a);
    rg__job_if_mod(&t, RG__KEY(ORDER), a->view.order.mod_revision);
    rg__job_put(&t, RG__KEY(ORDER), rg__order_text(&m), 0);
    rg__job_send(&t, on_ordered, a, order);
}

void rg__shares_begun(rg__saver *v)
{
    const rg__proposal *p = world_of(v, v->word.commit);
    if (v->now.shards == 0 || (p != NULL && p->host_count < 2))
        return;
    v->is_ordered = true;
    v->ordered_ns = rg__now_ns();
    rg__timer_set(v->patience, WRITE_NS);
    order(v->a);
}

void rg__shares_cancel(rg__saver *v)
{
    if (v->now.shards == 0 || !v->now.is_first)
        return;
    v->is_ordered = false;
    rg__timer_stop(v->patience);
    order(v->a);
}

static const rg__share *answer_of(const rg__saver *v, const char *host)
{
    const rg__snapshot *view = &v->a->view;
    for (int i = 0; i < view->shares; i++)
        if (strcmp(view->share[i].host, host) == 0 &&
            strcmp(view->share[i].op, v->word.op) == 0)
            return &view->share[i];
    return NULL;
}

static bool is_gone(const rg__saver *v, uint64_t host)
{
    const rg__proposal *p = rg__snapshot_decided(&v->a->view);
    return p != NULL && p->generation > v->word.commit.generation &&
           rg__proposal_host_index(p, host) < 0;
}

/* false: it has not written its own, or never will. */
static bool has_written(rg__saver *v, const rg__proposal_host *host)
{
    char why[RG__ERROR_MAX + 2 * RG__NAME_MAX];
    const rg__share *share = answer_of(v, host->name);
    if (share != NULL && share->error[0] == '\0')
        return true;
    if (share == NULL && !is_gone(v, host->id))
        return false;
    if (share != NULL)
        snprintf(why, sizeof why, "host %s: %s", host->name, share->error);
    else
        snprintf(why, sizeof why,
                 "host %s was lost before its shards were in a checkpoint; the "
                 "one before still counts",
                 host->name);
    rg__saver_lose(v, why);
    return false;
}

static void gather(rg__saver *v)
{
    const rg__writer_order go = {.kind = WRITER_GO};
    const rg__proposal *p = world_of(v, v->word.commit);
    for (int i = 0; p != NULL && i < p->host_count; i++)
        if (p->host[i].id != v->a->id && !has_written(v, &p->host[i]))
            return;
    if (p != NULL && rg__saver_order(v, &go))
        v->is_ordered = false;
}

/* ------------------------------------------------------------- another host */

static void on_answered(void *arg, rg_status st, const rg__txn_reply *reply)
{
    rg__saver *v = arg;
    (void)st, (void)reply;
    v->answering = NULL;
    if (v->phase == SAVER_PUBLISHING)
        v->phase = SAVER_SEALING;
    rg__saver_rest(v);
}

/* Under no lease: this agent may end as soon as etcd has it. */
static void send_answer(rg__agent *a)
{
    rg__saver *v = a->saver;
    rg__txn_draft t = rg__job_txn(a);
    rg__job_put(&t, RG__KEY(SHARE, 0, a->params->host),
                rg__share_text(&v->share), 0);
    rg__etcd_cancel(v->answering);
    v->answering = rg__job_send(&t, on_answered, v, send_answer);
}

static void answer(rg__saver *v, const char *error)
{
    snprintf(v->share.error, sizeof v->share.error, "%s", error);
    send_answer(v->a);
}

void rg__shares_done(rg__saver *v)
{
    answer(v, "");
    v->phase = SAVER_PUBLISHING;
}

/* The host that ordered the checkpoint reports that. */
void rg__shares_failed(rg__saver *v, const char *why)
{
    rg__log(RG__INFO, "agent", "no shards for a checkpoint: %s", why);
    snprintf(v->error, sizeof v->error, "%s", why);
    if (v->phase == SAVER_SHARING)
        answer(v, why);
    v->phase = SAVER_SEALING;
}

static void put_shards(rg__saver *v, const rg__order *o)
{
    rg__writer_order m = {.kind = WRITER_PUT, .serial = o->serial};
    memcpy(m.op, o->op, sizeof m.op);
    rg__timer_stop(v->patience);
    v->phase = SAVER_SHARING;
    if (!rg__saver_order(v, &m))
        rg__saver_hang_up(v);
}

static void have_none(rg__saver *v)
{
    answer(v, v->error[0] != '\0' ? v->error
                                  : "no worker there has asked for a "
                                    "checkpoint; the one before still counts");
    v->error[0] = '\0';
}

static bool is_copying(const rg__saver *v, rg__commit_id id)
{
    return (v->phase == SAVER_WRITING && rg__same_commit(v->now.commit, id)) ||
           (v->has_next && rg__same_commit(v->next.commit, id));
}

static bool is_for_us(const rg__saver *v, const rg__order *o)
{
    return o->mod_revision != 0 && o->op[0] != '\0' && o->host != v->a->id &&
           strcmp(o->op, v->share.op) != 0 &&
           rg__proposal_host_index(world_of(v, o->commit), v->a->id) >= 0;
}

static bool is_holding(const rg__saver *v, const rg__order *o)
{
    return v->phase == SAVER_HOLDING &&
           rg__same_commit(v->now.commit, o->commit);
}

/* There will be no file, which this host may know before its copy is made. */
static bool is_cancelled(const rg__saver *v, const rg__order *o)
{
    return o->mod_revision != 0 && o->op[0] == '\0' && is_holding(v, o);
}

/* It became durable before a worker here asked for it. */
static bool is_durable(const rg__saver *v)
{
    return v->phase == SAVER_HOLDING && rg__saver_is_durable(v, &v->now);
}

/* At the job's end no worker asks: once, for each commit that is ordered. */
static bool copies_by_itself(rg__saver *v, rg__commit_id id)
{
    const rg__proposal *p = world_of(v, id);
    if (!v->is_last || v->phase != SAVER_IDLE || v->has_next ||
        rg__same_commit(v->copied, id))
        return false;
    v->copied = id;
    v->next = (rg__save){.shards = (uint32_t)p->size, .commit = id};
    v->has_next = true;
    v->next_waits = false;
    rg__saver_start_next(v);
    return true;
}

/* We are to have a copy soon, or a worker may still ask for it. */
static bool may_come(rg__saver *v, const rg__order *o, bool is_late)
{
    if (is_copying(v, o->commit) || copies_by_itself(v, o->commit))
        return true;
    if (v->phase != SAVER_IDLE || is_late || v->error[0] != '\0')
        return false;
    rg__timer_set(v->patience, LATE_NS);
    return true;
}

static void follow_order(rg__saver *v, bool is_late)
{
    const rg__order *o = &v->a->view.order;
    if (is_cancelled(v, o) || is_durable(v))
        rg__saver_hang_up(v);
    if (!is_for_us(v, o) || (!is_holding(v, o) && may_come(v, o, is_late)))
        return;
    memcpy(v->share.op, o->op, sizeof v->share.op);
    if (is_holding(v, o))
        put_shards(v, o);
    else
        have_none(v);
}

void rg__shares_held(rg__saver *v)
{
    v->phase = SAVER_HOLDING;
    v->error[0] = '\0';
    rg__timer_set(v->patience, v->has_next ? YIELD_NS : HOLD_NS);
    follow_order(v, false);
}

/* -------------------------------------------------------------------- both */

static void order_again(rg__saver *v)
{
    rg__timer_set(v->patience, WRITE_NS);
    if (v->must_order && strcmp(v->a->view.order.op, v->word.op) != 0)
        order(v->a);
    v->must_order = false;
    gather(v);
}

void rg__shares_asked(rg__saver *v)
{
    if (v->phase == SAVER_HOLDING)
        rg__timer_set(v->patience, YIELD_NS);
}

void rg__shares_follow(rg__saver *v)
{
    if (v->phase == SAVER_WRITING && v->is_ordered)
        gather(v);
    follow_order(v, false);
}

void rg__shares_late(void *saver_arg)
{
    rg__saver *v = saver_arg;
    if (v->phase == SAVER_HOLDING) {
        rg__saver_hang_up(v);
    } else if (v->phase == SAVER_WRITING && v->is_ordered) {
        if (rg__now_ns() - v->ordered_ns >= WRITE_NS)
            rg__saver_lose(v, "not all hosts have written their shards of a "
                              "checkpoint within 10 minutes; the one before "
                              "still counts");
        else
            order_again(v);
    } else {
        follow_order(v, true);
    }
}
