/* rg_run: the advice column made a loop. */
#include "elastic/state/state.h"
#include "elastic/worker/worker.h"

#include <stdio.h>

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"

#define IN_VAIN_MAX 10

/* The last generation of a finished job remains the program's world. */
static void leave_run(rg_ctx *ctx)
{
    ctx->is_running = false;
    if (rg__worker_is_done(ctx->worker))
        return;
    rg__context_set_computing(ctx, false);
    rg__engine_shut(ctx->engine, RG_ERR_INVALID,
                    "rg_run has failed, and there is no world outside of it; "
                    "end this process");
}

/* The program may use on_break's data again. */
static void settle(rg__worker *w)
{
    pthread_mutex_lock(&w->lock);
    rg__break_await(w);
    pthread_mutex_unlock(&w->lock);
}

/* The Regroup thread alone would look like a program that computes for long. It
 * also ends without an agent, since it keeps the process alive. */
static void thread_ended(void *arg)
{
    rg__worker *w = arg;
    w->ctx->has_failed = true;
    rg__worker_fail(w, RG__THREAD_ENDED);
    rg__worker_stop_thread(w);
    settle(w);
    leave_run(w->ctx);
}

/* The frame of rg_run that notices when fn was left without a return: a C++
 * exception, or the unwinding of a thread that ends, passes it. */
typedef struct passage {
    rg_state *state;
    bool has_returned;
} passage;

static void leave_passage(passage *p)
{
    if (p->has_returned)
        return;
    int off = 0;
    rg__worker *w = p->state->ctx->worker;
    p->state->is_in_fn = false;
    thread_ended(w);
    pthread_setcancelstate(p->state->cancel_state, &off);
    pthread_key_delete(w->thread_end);
    w->has_thread_end = false;
}

/* The program's own code, which may end its thread. Only here can the thread be
 * cancelled: it holds no lock of rg_run then. */
static rg_status call(rg_state *state, rg_train_fn fn, void *arg)
{
    int off = 0;
    pthread_setcancelstate(state->cancel_state, &off);
    const rg_status st = fn(state, arg);
    pthread_setcancelstate(off, &state->cancel_state);
    return rg__group_leave(state->ctx, st);
}

static rg_status run_fn(rg_state *state, rg_train_fn fn, void *arg)
{
    state->is_in_fn = true;
    const rg_status st = call(state, fn, arg);
    state->is_in_fn = false;
    return st;
}

/* has_world: by rg_world_wait, which has compared the tables of sets. */
static rg_status run_generation(rg_state *state, const rg__decided *decided,
                                bool has_world, rg_train_fn fn, void *arg)
{
    rg_status st = has_world ? RG_OK : rg__sets_sync(state->ctx);
    if (st == RG_OK)
        st = rg__sets_connect(state->ctx);
    if (st != RG_OK)
        return st;
    rg__state_note_join(state, decided);
    st = rg__state_sync(state, decided);
    if (st == RG_OK && state->on_reset != NULL)
        st = call(state, state->on_reset, state->reset_arg);
    state->ctx->worker->begun_step = state->step;
    if (st == RG_OK)
        st = run_fn(state, fn, arg);
    if (st == RG_OK || rg__state_has_stopped(state, st))
        st = rg__state_finish(state);
    return st;
}

/* fn may return for its own reason, such as a status that it kept: no other
 * rank knows then, and the generation must end for all. false: it is known. */
static bool make_known(rg__worker *w, const char *why)
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
    rg__worker_broken(w, generation, -1, why);
    return true;
}

/* A reason of its own again and again is not a change of membership but a
 * mistake, which would reset all others forever. */
rg_status rg__worker_leave_to_come_back(rg_state *state, const char *why)
{
    rg__worker *w = state->ctx->worker;
    rg__state_note_leave(state);
    w->in_vain += make_known(w, why);
    if (state->step != w->begun_step)
        w->in_vain = 0;
    return w->in_vain < IN_VAIN_MAX
               ? RG_OK
               : rg__fail(RG_ERR_INVALID,
                          "%s %d times without a step, in generations that "
                          "nothing else had ended; don't keep a status or a "
                          "request of an earlier generation",
                          why, IN_VAIN_MAX);
}

rg_status rg__worker_finished(rg__worker *w)
{
    rg__failpoint("fin", w->ctx->now.rank, 0, w->taken);
    pthread_mutex_lock(&w->lock);
    w->fin = w->taken;
    if (w->sock < 0) {
        w->done = w->taken;
        rg__worker_step(w, RG__ON_DONE);
    }
    pthread_mutex_unlock(&w->lock);
    return rg__worker_mark(w, RG__FIN, w->taken);
}

/* OK: another generation comes. */
static rg_status judge(rg_state *state, rg_status st)
{
    rg__worker *w = state->ctx->worker;
    char why[RG__TEXT_MAX];
    switch (rg_status_advice(st)) {
    case RG_ADVICE_NONE:
        if (st == RG_OK)
            return rg__worker_finished(w);
        return rg__fail(RG_ERR_INVALID,
                        "the training function returned %s, which is not a "
                        "reason to leave it; return RG_OK at its end",
                        rg_status_name(st));
    case RG_ADVICE_RESYNC:
    case RG_ADVICE_RESTORE:
        if (w->sock < 0)
            return rg__fail(RG_ERR_INVALID,
                            "the training function returned %s, but this "
                            "worker is alone and has lost no peer",
                            rg_status_name(st));
        snprintf(why, sizeof why, "the training function returned %s",
                 rg_status_name(st));
        return rg__worker_leave_to_come_back(state, why);
    case RG_ADVICE_RETRY:
        return rg__fail(RG_ERR_INVALID,
                        "the training function returned RG_IN_PROGRESS; wait "
                        "for the request before returning");
    case RG_ADVICE_FIX:
    case RG_ADVICE_ABORT:
        break;
    }
    return st;
}

static rg_status run(rg_state *state, rg_train_fn fn, void *arg)
{
    state->ctx->worker->registered = rg__state_registered(state);
    state->ctx->worker->loaded =
        state->loaded.name[0] != '\0' ? state->loaded.hash : 0;
    state->ctx->worker->waits = false;
    rg__state_show_loaded(state);
    rg__decided decided;
    bool is_done = false,
         has_world = rg__worker_has_world(state->ctx->worker, &decided);
    rg_status st = rg__worker_door(state->ctx->worker);
    while (st == RG_OK) {
        if (!has_world)
            st = rg__worker_await(state->ctx->worker, &decided, &is_done);
        if (st == RG_OK && is_done)
            rg__state_tell(state);
        if (st != RG_OK || is_done)
            break;
        st = judge(state, run_generation(state, &decided, has_world, fn, arg));
        has_world = false;
    }
    rg__state_note_leave(state);
    return st;
}

static rg_status run_in_thread(rg_state *state, rg_train_fn fn, void *arg)
{
    int off = 0;
    passage p __attribute__((cleanup(leave_passage))) = {state, false};
    state->ctx->is_running = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state->cancel_state);
    const rg_status st = run(state, fn, arg);
    p.has_returned = true;
    state->ctx->has_failed = st != RG_OK;
    if (st != RG_OK)
        rg__worker_fail(state->ctx->worker, RG__RUN_FAILED);
    settle(state->ctx->worker);
    leave_run(state->ctx);
    pthread_setcancelstate(state->cancel_state, &off);
    return st;
}

/* A thread-specific value is dropped when the thread ends, in any language, and
 * needs no unwinding. */
static rg_status run_watched(rg_state *state, rg_train_fn fn, void *arg)
{
    rg__worker *w = state->ctx->worker;
    if (pthread_key_create(&w->thread_end, thread_ended) != 0 ||
        pthread_setspecific(w->thread_end, w) != 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "rg_run can't watch its thread: this process has no "
                        "key for thread-specific data left");
    w->has_thread_end = true;
    const rg_status st = run_in_thread(state, fn, arg);
    w->has_thread_end = false;
    pthread_key_delete(w->thread_end);
    return st;
}

rg_status rg_run(rg_state *state, rg_train_fn fn, void *arg)
{
    if (state == NULL || fn == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_run needs a state and a function");
    if (!state->ctx->is_elastic)
        return rg__fail(RG_ERR_INVALID, "rg_run needs an elastic program: set "
                                        "rg_params.elastic = 1 in rg_init");
    if (state->ctx->is_running)
        return rg__fail(RG_ERR_INVALID, "rg_run is running already");
    if (rg__worker_is_done(state->ctx->worker))
        return rg__fail(RG_ERR_INVALID,
                        "the job is done; rg_run runs once in a process");
    if (state->ctx->has_failed)
        return rg__fail(RG_ERR_INVALID,
                        "rg_run has failed in this process; end it, and its "
                        "slot starts again");
    return run_watched(state, fn, arg);
}
