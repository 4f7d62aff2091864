/* Requests on their way: queued, begun on the comm, advanced, ended. The
 * engine's lock is held in most of it. */
#include "sdk/core/engine_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"

#define DONE_PER_ROUND 16 /* operations on one channel */
#define PIECES         4  /* of a small operation that has just been started */
#define ALONE_LOOKS    64 /* without success, at what the caller waits for */

/* ------------------------------------------------------- ending requests */

/* The requests fused with it end as it does; it ends last. */
static void finish_request(rg__engine *e, rg_req *req, rg_status st,
                           const char *why)
{
    const bool is_dropped = req->is_dropped; /* else its waiter owns it soon */
    for (int i = rg__run_count(req) - 1; i >= 0; i--)
        rg__req_finish(e, rg__run_at(req, i), st, why);
    if (is_dropped)
        rg__req_free(req);
}

void rg__req_fail_noted(rg__engine *e, rg_req *req, rg_status st,
                        const char *why)
{
    rg__count_add(&e->in_flight, 1); /* it was not, and no longer is */
    rg__req_finish(e, req, st, why);
}

static rg_req *pop(rg__channel *ch)
{
    rg_req *req = ch->head;
    ch->head = req->next;
    if (ch->head == NULL)
        ch->tail = NULL;
    ch->has_begun = false;
    return req;
}

/* The first operation was given up or has failed. */
static void hold_memory(rg__channel *ch)
{
    if (ch->head == NULL || !ch->has_begun || ch->comm == NULL)
        return;
    const rg__transport *transport = ch->comm->transport;
    ch->head->is_held = transport->holds != NULL && transport->holds(ch->comm);
}

static void finish_all(rg__channel *ch, rg_status st, const char *why)
{
    hold_memory(ch);
    rg__channel_drop_messages(ch, st, why);
    while (ch->head != NULL)
        finish_request(ch->engine, pop(ch), st, why);
}

/* All or none: the rest of a group fails the way its first operation did. */
static void finish_group(rg__channel *ch, uint64_t group, rg_status st,
                         const char *why)
{
    if (group == 0 || st == RG_OK)
        return;
    while (ch->head != NULL && ch->head->group == group)
        finish_request(ch->engine, pop(ch), st, why);
}

static void unlink_request(rg__channel *ch, rg_req *req)
{
    rg_req *before = NULL, *at = ch->head;
    while (at != req) {
        before = at;
        at = at->next;
    }
    if (before == NULL)
        ch->head = req->next;
    else
        before->next = req->next;
    if (ch->tail == req)
        ch->tail = before;
}

/* Lock held. */
static rg_status fail_aborted(const rg__engine *e)
{
    if (e->overdue_generation == atomic_load(&e->generation))
        return rg__fail(RG_ERR_PEER_LOST,
                        "the generation has ended: %s; return this status "
                        "from fn",
                        e->overdue_why);
    return rg__fail(RG_ERR_PEER_LOST,
                    "generation %llu has ended because a peer is lost; return "
                    "this status from fn",
                    (unsigned long long)atomic_load(&e->generation));
}

void rg__engine_give_up(rg__engine *e, rg_req *req)
{
    rg__engine_lock(e);
    if (!rg__req_is_done(req) && rg__engine_is_aborted(e)) {
        rg_req *queued = req->leader != NULL ? req->leader : req;
        fail_aborted(e);
        if (req->message != NULL) {
            rg__message_give_up(e, req, RG_ERR_PEER_LOST, rg_last_error());
            rg__engine_unlock(e);
            return;
        }
        if (queued == queued->channel->head)
            hold_memory(queued->channel);
        unlink_request(queued->channel, queued);
        finish_request(e, queued, RG_ERR_PEER_LOST, rg_last_error());
    }
    rg__engine_unlock(e);
}

/* --------------------------------------------------------------- progress */

/* The comm goes on after these; after any other it is only good for closing. */
static bool leaves_comm_usable(rg_status st)
{
    return st == RG_OK || st == RG_ERR_MISMATCH || st == RG_ERR_INVALID ||
           st == RG_ERR_UNSUPPORTED;
}

/* Lock held. */
static bool is_let_in(const rg__engine *e)
{
    return e->world == NULL || e->transport->admits == NULL ||
           e->transport->admits(e->world->comm);
}

void rg__channel_set_reason(rg__channel *ch, rg_status st, const char *why)
{
    char *copy = strdup(why); /* copied first: why may be the old reason */
    free(ch->close_why);
    ch->close_why = copy;
    ch->close_st = st;
}

void rg__channel_shut(rg__channel *ch, rg_status st, const char *why)
{
    rg__channel_set_reason(ch, st, why);
    finish_all(ch, st, why);
    ch->has_begun = false; /* even if the first operation was given up */
}

static rg_status advance(rg__channel *ch)
{
    if (!ch->has_begun) {
        if (rg__run_prepare(ch->head) == RG_IN_PROGRESS) {
            ch->comm->moves++;
            return RG_IN_PROGRESS;
        }
        rg__failpoint("coll.start", ch->engine->rank,
                      atomic_load(&ch->engine->page->step),
                      atomic_load(&ch->engine->generation));
        const rg__coll *coll = rg__run_begin(ch->head);
        if (coll == NULL)
            return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
        const rg_status st = ch->comm->transport->start(ch->comm, coll);
        if (st != RG_OK && st != RG_IN_PROGRESS)
            return st;
        ch->has_begun = true;
        rg__record_begun(ch->engine, ch->head);
    }
    const uint64_t before = ch->comm->moves;
    const rg_status st = ch->comm->transport->test(ch->comm);
    if (st == RG_IN_PROGRESS && ch->comm->moves != before)
        rg__failpoint("coll.middle", ch->engine->rank,
                      atomic_load(&ch->engine->page->step),
                      atomic_load(&ch->engine->generation));
    return st;
}

/* Lock held. Does one piece of work on the first operation, and goes on to the
 * next ones if it was the last piece; true if anything moved. */
static bool progress_channel(rg__channel *ch)
{
    if (ch->head == NULL || ch->comm == NULL)
        return false;
    const uint64_t before = ch->comm->moves;
    for (int i = 0; i < DONE_PER_ROUND && ch->head != NULL; i++) {
        rg_status st = advance(ch);
        if (st == RG_IN_PROGRESS)
            return ch->comm->moves != before;
        st = rg__run_end(ch->head, st, &ch->comm->joined);
        if (st == RG_IN_PROGRESS) {
            ch->has_begun = false;
            ch->comm->moves++;
            continue;
        }
        const char *why = st == RG_OK ? NULL : rg_last_error();
        if (st != RG_OK)
            hold_memory(ch);
        const uint64_t group = ch->head->group;
        finish_request(ch->engine, pop(ch), st, why);
        finish_group(ch, group, st, why);
        if (!leaves_comm_usable(st)) {
            rg__channel_set_reason(ch, st, why);
            finish_all(ch, st, ch->close_why);
            break;
        }
    }
    return true;
}

static bool is_open(const rg__channel *ch)
{
    return ch->comm != NULL && ch->close_st == RG_OK;
}

/* Channels that have nothing left to do leave the list. */
bool rg__engine_advance(rg__engine *e)
{
    bool moved = false;
    if (rg__engine_is_aborted(e) || !is_let_in(e))
        return false;
    moved = rg__engine_carry_messages(e);
    for (rg__channel **at = &e->busy; *at != NULL;) {
        rg__channel *ch = *at;
        if (is_open(ch))
            moved |= progress_channel(ch);
        if (rg__channel_has_work(ch)) {
            at = &ch->next_busy;
            continue;
        }
        *at = ch->next_busy;
        ch->is_busy = false;
    }
    return moved;
}

bool rg__engine_help(rg__engine *e)
{
    if (!rg__engine_trylock(e))
        return false;
    const bool moved = rg__engine_advance(e);
    rg__engine_unlock(e);
    return moved;
}

/* ------------------------------------------------------------------- start */

rg_status rg__channel_check_start(const rg__channel *ch)
{
    if (rg__engine_is_aborted(ch->engine) && ch->engine->is_admitted)
        return fail_aborted(ch->engine);
    if (ch->close_st != RG_OK)
        return rg__fail(ch->close_st, "%s",
                        ch->close_why != NULL ? ch->close_why : "");
    if (!is_let_in(ch->engine))
        return rg__fail(RG_ERR_INVALID,
                        "transport %s came up without support for threads: "
                        "only the thread that began it may start operations",
                        ch->engine->transport->name);
    return RG_OK;
}

rg_status rg__channel_check(rg__channel *ch)
{
    rg__engine_lock(ch->engine);
    const rg_status st = rg__channel_check_start(ch);
    rg__engine_unlock(ch->engine);
    return st;
}

void rg__req_set(rg_req *req, rg__channel *ch, const rg__start *start)
{
    *req = (rg_req){.engine = ch->engine,
                    .channel = ch,
                    .coll = start->coll,
                    .arrays = start->arrays,
                    .last_p = start->last_p,
                    .is_dropped = start->is_dropped};
    rg__deadline_set(req, start->timeout_ms);
}

rg_req *rg__req_create(rg__channel *ch, const rg__start *start)
{
    rg_req *req = malloc(sizeof *req);
    if (req == NULL) {
        free(start->arrays);
        return NULL;
    }
    rg__req_set(req, ch, start);
    rg__engine_ref(ch->engine);
    return req;
}

void rg__req_clear(rg_req *req)
{
    if (!req->is_held) {
        rg__run_free(req->run);
        free(req->arrays);
    }
    free(req->why);
}

void rg__req_free(rg_req *req)
{
    rg__engine_unref(req->engine);
    rg__device_unref(req->device);
    rg__req_clear(req);
    free(req);
}

void rg__channel_note_busy(rg__channel *ch)
{
    if (ch->is_busy)
        return;
    ch->is_busy = true;
    ch->next_busy = ch->engine->busy;
    ch->engine->busy = ch;
}

void rg__channel_append(rg__channel *ch, rg_req *req)
{
    if (ch->tail == NULL)
        ch->head = req;
    else
        ch->tail->next = req;
    ch->tail = req;
    rg__channel_note_busy(ch);
    rg__record_queued(ch, req);
    rg__req_count_in(ch, rg__run_count(req));
}

void rg__channel_begin_now(rg__channel *ch, uint64_t bytes)
{
    int pieces = bytes < RG__RING_BYTES ? PIECES : 1;
    while (progress_channel(ch) && --pieces > 0)
        ;
}

static bool is_alone(const rg__engine *e)
{
    return atomic_load_explicit(&e->in_flight, memory_order_relaxed) == 1 &&
           atomic_load_explicit(&e->wanting, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&e->left, memory_order_relaxed) == NULL &&
           !rg__engine_is_aborted(e);
}

void rg__channel_go_alone(rg__channel *ch, const rg_req *req)
{
    rg__engine *e = ch->engine;
    const rg__wait_policy *wait =
        atomic_load_explicit(&e->wait, memory_order_acquire);
    const int most = rg__is_crowded(wait) ? 1 : ALONE_LOOKS;
    for (int vain = 0; vain < most && is_alone(e);) {
        vain = progress_channel(ch) ? 0 : vain + 1;
        if (rg__req_is_done(req))
            return;
    }
}

/* In the order in which they were started. If a channel is closed by now, the
 * operation ends with the status that starting it would have returned. */
static void queue_all(rg__engine *e, rg_req *newest)
{
    rg_req *oldest = NULL;
    while (newest != NULL) {
        rg_req *before = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = before;
    }
    while (oldest != NULL) {
        rg_req *req = oldest;
        oldest = req->next;
        req->next = NULL;
        const rg_status st = rg__channel_check_start(req->channel);
        if (st == RG_OK)
            rg__channel_append(req->channel, req);
        else
            rg__req_fail_noted(e, req, st, rg_last_error());
    }
}

void rg__engine_queue_left(rg__engine *e)
{
    if (atomic_load_explicit(&e->left, memory_order_relaxed) != NULL)
        queue_all(e, atomic_exchange(&e->left, NULL));
}

/* A thread that advances operations holds the lock for as long as a piece of
 * data takes. The start of a long operation does not wait for that; nor does it
 * move a piece itself, unless its caller is about to wait anyway. */
static bool lock_or_leave(rg__channel *ch, rg_req *req, uint64_t bytes)
{
    rg__engine *e = ch->engine;
    const bool may_leave =
        bytes >= RG__RING_BYTES && !atomic_load(&e->is_left_alone) &&
        atomic_load(&ch->close_st) == RG_OK && !rg__engine_is_aborted(e);
    if (!may_leave) {
        rg__engine_lock(e);
        return true;
    }
    if (rg__engine_is_waited_for(e) && rg__engine_trylock(e))
        return true;
    rg__engine_leave_behind(e, req);
    return false;
}

rg_status rg__channel_begin(rg__channel *ch, const rg__start *start,
                            rg_req **req_p)
{
    rg__engine *e = ch->engine;
    const uint64_t bytes = start->coll.count * rg_type_size(start->coll.type);
    rg_req *req = rg__req_create(ch, start);
    if (req == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a request");
    if (!lock_or_leave(ch, req, bytes)) {
        *req_p = req;
        return RG_OK;
    }
    const rg_status st = rg__channel_check_start(ch);
    if (st == RG_OK) {
        rg__channel_append(ch, req);
        rg__channel_begin_now(ch, bytes);
        rg__engine_hand_over(e);
    }
    rg__engine_unlock(e);
    if (st != RG_OK) {
        rg__req_free(req);
        return st;
    }
    rg__engine_wake(e, bytes);
    *req_p = req;
    return RG_OK;
}

rg_status rg__channel_refuse(rg__channel *ch, const char *what, rg_status st)
{
    const rg__start start = {
        .coll = {.kind = RG__BARRIER,
                 .tag = RG__REFUSED_TAG - (uint64_t)(int64_t)st,
                 .what = what},
        .is_dropped = true};
    char why[512];
    rg_req *req = NULL;
    snprintf(why, sizeof why, "%s", rg_last_error());
    rg__channel_begin(ch, &start, &req); /* if this fails, the set is closed */
    return rg__fail(st, "%s", why);
}

rg_status rg__channel_start(rg__channel *ch, const rg__coll *coll,
                            rg_req **req_p)
{
    const rg__start start = {.coll = *coll};
    return rg__channel_begin(ch, &start, req_p);
}
