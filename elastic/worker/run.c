/* rg_run: the advice column made a loop. */
#include "elastic/state/state.h"
#include "elastic/worker/worker.h"

#include <stdio.h>

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"

#define IN_VAIN_MAX 10

static rg_status run_fn(rg_state *st, rg_train_fn fn, void *arg)
{
    st->is_in_fn = true;
    const rg_status rs = fn(st, arg);
    st->is_in_fn = false;
    return rg__group_leave(st->ctx, rs);
}

static rg_status run_generation(rg_state *st, const rg__decided *decided,
                                rg_train_fn fn, void *arg)
{
    rg_status rs = rg__sets_sync(st->ctx);
    if (rs != RG_OK)
        return rs;
    rg__state_note_join(st, decided);
    rs = rg__state_sync(st, decided);
    if (rs == RG_OK && st->on_reset != NULL)
        rs = rg__group_leave(st->ctx, st->on_reset(st, st->reset_arg));
    st->ctx->worker->begun_step = st->step;
    if (rs == RG_OK)
        rs = run_fn(st, fn, arg);
    if (rs == RG_OK)
        rs = rg__state_finish(st);
    return rs;
}

/* fn may leave for a reason of its own, such as a status that it kept: then
 * nobody else knows, and the generation must end for all. false: it is known.
 */
static bool make_known(rg__worker *w, rg_status rs)
{
    pthread_mutex_lock(&w->lock);
    const bool is_known = w->phase != RG__PHASE_DECIDED ||
                          w->broken.generation == w->taken ||
                          w->leave_agreed == w->taken ||
                          atomic_load(&w->ctx->page->abort) >= w->taken;
    const uint64_t generation = w->taken;
    pthread_mutex_unlock(&w->lock);
    if (is_known)
        return false;
    char why[RG__TEXT_MAX];
    snprintf(why, sizeof why, "the training function returned %s",
             rg_status_name(rs));
    rg__worker_broken(w, generation, -1, why);
    return true;
}

/* A reason of its own again and again is no change of membership, but a
 * mistake, and all others would be reset by it for ever. */
static rg_status leave_to_come_back(rg_state *st, rg_status rs)
{
    rg__worker *w = st->ctx->worker;
    w->in_vain += make_known(w, rs);
    if (st->step != w->begun_step)
        w->in_vain = 0;
    return w->in_vain < IN_VAIN_MAX
               ? RG_OK
               : rg__fail(RG_ERR_INVALID,
                          "the training function returned %s %d times "
                          "without a step, in generations that nothing else "
                          "had ended; don't keep a status or a request of an "
                          "earlier generation",
                          rg_status_name(rs), IN_VAIN_MAX);
}

static rg_status finished(rg__worker *w)
{
    rg__failpoint("fin", w->ctx->now.rank, 0, w->taken);
    pthread_mutex_lock(&w->lock);
    w->fin = w->taken;
    if (w->sock < 0) {
        w->done = w->taken;
        w->phase = RG__PHASE_DONE;
    }
    pthread_mutex_unlock(&w->lock);
    return rg__worker_mark(w, RG__FIN, w->taken);
}

/* OK: another generation comes. */
static rg_status judge(rg_state *st, rg_status rs)
{
    rg__worker *w = st->ctx->worker;
    switch (rg_status_advice(rs)) {
    case RG_ADVICE_NONE:
        if (rs == RG_OK)
            return finished(w);
        return rg__fail(RG_ERR_INVALID,
                        "the training function returned %s, which is no "
                        "reason to leave it; return RG_OK at its end",
                        rg_status_name(rs));
    case RG_ADVICE_RESYNC:
    case RG_ADVICE_RESTORE:
        rg__state_note_leave(st);
        if (w->sock < 0)
            return rg__fail(RG_ERR_INVALID,
                            "the training function returned %s, but this "
                            "worker is alone and lost nobody",
                            rg_status_name(rs));
        return leave_to_come_back(st, rs);
    case RG_ADVICE_RETRY:
        return rg__fail(RG_ERR_INVALID,
                        "the training function returned RG_IN_PROGRESS; wait "
                        "for the request before returning");
    case RG_ADVICE_FIX:
    case RG_ADVICE_ABORT:
        break;
    }
    return rs;
}

static rg_status run(rg_state *st, rg_train_fn fn, void *arg)
{
    st->ctx->worker->registered = rg__state_registered(st);
    st->ctx->worker->loaded = st->loaded.name[0] != '\0' ? st->loaded.hash : 0;
    rg_status rs = rg__worker_door(st->ctx->worker);
    while (rs == RG_OK) {
        rg__decided decided;
        bool is_done = false;
        rs = rg__worker_await(st->ctx->worker, &decided, &is_done);
        if (rs != RG_OK || is_done)
            break;
        rs = judge(st, run_generation(st, &decided, fn, arg));
    }
    rg__state_note_leave(st);
    return rs;
}

rg_status rg_run(rg_state *st, rg_train_fn fn, void *arg)
{
    if (st == NULL || fn == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_run needs a state and a function");
    if (!st->ctx->is_elastic)
        return rg__fail(RG_ERR_INVALID, "rg_run needs an elastic program: set "
                                        "rg_params.elastic = 1 in rg_init");
    if (st->ctx->is_running)
        return rg__fail(RG_ERR_INVALID, "rg_run is running already");
    if (rg__worker_is_done(st->ctx->worker))
        return rg__fail(RG_ERR_INVALID,
                        "the job is done; rg_run runs once in a process");
    if (st->ctx->has_failed)
        return rg__fail(RG_ERR_INVALID,
                        "rg_run has failed in this process; end it, and its "
                        "slot starts again");
    st->ctx->is_running = true;
    const rg_status rs = run(st, fn, arg);
    st->ctx->has_failed = rs != RG_OK;
    if (rs != RG_OK)
        rg__worker_fail(st->ctx->worker);
    st->ctx->is_running = false;
    rg__context_set_computing(st->ctx, false);
    rg__engine_shut(st->ctx->engine, RG_ERR_INVALID,
                    "outside of rg_run there is no world; call it inside "
                    "rg_run's fn");
    return rs;
}
