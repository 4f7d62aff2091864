/* The door: where a worker waits for its place in a generation. */
#include "elastic/worker/worker.h"

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

/* Lock held. Opens the generation to user threads. */
static rg_status take_up(rg__worker *w)
{
    rg_ctx *ctx = w->ctx;
    const rg_status st = rg__context_set_membership(ctx, &w->entered);
    if (st != RG_OK)
        return st;
    rg__context_set_computing(ctx, true);
    w->taken = w->entered.generation;
    pthread_mutex_lock(&ctx->gate);
    ctx->gate_generation = w->taken;
    pthread_mutex_unlock(&ctx->gate);
    rg__engine_admit(ctx->engine);
    rg__log_who(ctx->host, w->entered.rank, w->entered.size, w->taken);
    return RG_OK;
}

rg_status rg__worker_door(rg__worker *w)
{
    rg__failpoint("door", -1, 0, 0);
    pthread_mutex_lock(&w->lock);
    rg__worker_step(w, w->sock < 0 ? RG__ON_COME_ALONE : RG__ON_COME);
    pthread_mutex_unlock(&w->lock);
    if (w->sock < 0)
        return RG_OK;
    const bool has_loaded = w->taken == 0; /* else it was the world's */
    const rg__door m = {.head = {RG__DOOR, RG__WIRE_VERSION},
                        .port = w->port,
                        .registered = w->registered,
                        .loaded = has_loaded ? w->loaded : 0,
                        .waits = w->waits};
    return rg__worker_send(w, &m, sizeof m);
}

/* Was this worker in the generation that finished the job? One that was left
 * out has an older state. */
static bool has_finished(const rg__worker *w)
{
    return w->taken != 0 && w->taken == w->done;
}

bool rg__worker_is_done(rg__worker *w)
{
    pthread_mutex_lock(&w->lock);
    const bool is_done = w->phase == RG__PHASE_DONE && has_finished(w);
    pthread_mutex_unlock(&w->lock);
    return is_done;
}

static bool is_something_here(const rg__worker *w)
{
    return w->phase == RG__PHASE_DONE || w->phase == RG__PHASE_ENDED ||
           (w->phase == RG__PHASE_DECIDED && w->entered.generation > w->taken);
}

/* Lock held. */
static rg_status take_what_is_here(rg__worker *w, rg__decided *decided,
                                   bool *is_done_p)
{
    rg_status st = RG_OK;
    *is_done_p = w->phase == RG__PHASE_DONE;
    if (*is_done_p && !has_finished(w)) {
        st = rg__fail(w->taken == 0 ? RG_ERR_ASKED_TO_LEAVE : RG_ERR_JOB_ENDED,
                      w->taken == 0
                          ? "the job was done before this worker got a place "
                            "in it"
                          : "the job was done without this worker, whose host "
                            "had been given up; its memory is not the result");
    } else if (w->phase == RG__PHASE_ENDED) {
        st = rg__fail(w->end, "%s", w->end_why);
    } else if (w->phase == RG__PHASE_DECIDED) {
        *decided = w->decided.generation == w->entered.generation ? w->decided
                                                                  : w->expected;
        st = take_up(w);
    }
    return st;
}

static bool is_on_record(const rg__worker *w)
{
    return w->decided.generation == w->taken;
}

/* Lock held. Memory is restored, and fn not entered; the Regroup thread may be
 * in the next generation by now. */
static bool is_record_awaited(const rg__worker *w)
{
    return w->phase == RG__PHASE_DECIDED && w->entered.generation == w->taken &&
           !is_on_record(w);
}

rg_status rg__worker_await_decision(rg_ctx *ctx)
{
    rg__worker *w = ctx->worker;
    pthread_mutex_lock(&w->lock);
    rg__context_set_computing(ctx, !is_record_awaited(w));
    while (is_record_awaited(w))
        pthread_cond_wait(&w->changed, &w->lock);
    rg__context_set_computing(ctx, true);
    const bool is_recorded = is_on_record(w);
    pthread_mutex_unlock(&w->lock);
    return is_recorded
               ? RG_OK
               : rg__fail(RG_ERR_PEER_LOST,
                          "the generation was given up before it was on "
                          "record; return this status from fn");
}

bool rg__worker_waits(rg__worker *w, bool *is_proposed_p)
{
    pthread_mutex_lock(&w->lock);
    const bool waits = !is_something_here(w);
    *is_proposed_p = w->entered.generation > w->taken;
    pthread_mutex_unlock(&w->lock);
    return waits;
}

void rg__worker_nap(rg__worker *w, uint64_t ns)
{
    const struct timespec until = rg__timespec(rg__now_ns() + ns);
    pthread_mutex_lock(&w->lock);
    if (!is_something_here(w))
        pthread_cond_timedwait(&w->changed, &w->lock, &until);
    pthread_mutex_unlock(&w->lock);
}

rg_status rg__worker_await(rg__worker *w, rg__decided *decided, bool *is_done_p)
{
    pthread_mutex_lock(&w->lock);
    while (!is_something_here(w))
        pthread_cond_wait(&w->changed, &w->lock);
    rg__break_await(w);           /* of the generation before */
    while (!is_something_here(w)) /* that one was left meanwhile */
        pthread_cond_wait(&w->changed, &w->lock);
    const rg_status st = take_what_is_here(w, decided, is_done_p);
    pthread_mutex_unlock(&w->lock);
    return st;
}

/* ---------------------------------------------------------- the first world */

/* Alone, this worker begins by itself. */
static bool has_begun(const rg__worker *w)
{
    return w->sock >= 0 && atomic_load(&w->ctx->page->begun) != 0;
}

rg_status rg__worker_await_first(rg__worker *w, bool *is_joining_p)
{
    rg_status st = RG_OK;
    rg__decided decided;
    bool is_done = false;
    pthread_mutex_lock(&w->lock);
    while (!is_something_here(w) && !has_begun(w))
        pthread_cond_wait(&w->changed, &w->lock);
    *is_joining_p = has_begun(w) && w->phase != RG__PHASE_ENDED;
    if (!*is_joining_p)
        st = take_what_is_here(w, &decided, &is_done);
    pthread_mutex_unlock(&w->lock);
    return st;
}

bool rg__worker_has_world(rg__worker *w, rg__decided *decided)
{
    pthread_mutex_lock(&w->lock);
    const bool has_world = w->taken != 0 && w->phase == RG__PHASE_DECIDED &&
                           w->decided.generation == w->taken;
    if (has_world)
        *decided = w->decided;
    pthread_mutex_unlock(&w->lock);
    return has_world;
}
