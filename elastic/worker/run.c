/* rg_run: the advice column made a loop. */
#include "elastic/state/state.h"
#include "elastic/worker/worker.h"

#include <stdio.h>

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"

#define IN_VAIN_MAX 10

/* The last generation of a job that is done stays the program's world. */
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

/* What on_break uses is the program's again. */
static void settle(rg__worker *w)
{
    pthread_mutex_lock(&w->lock);
    rg__break_await(w);
    pthread_mutex_unlock(&w->lock);
}

/* The Regroup thread alone would look like a program that computes for long. It
 * ends without an agent too, since it keeps the process alive. */
static void thread_ended(void *arg)
{
    rg__worker *w = arg;
    w->ctx->has_failed = true;
    rg__worker_fail(w, RG__THREAD_ENDED);
    rg__worker_stop_thread(w);
    settle(w);
    leave_run(w->ctx);
}

/* The frame of rg_run that knows when fn was not left by a return: an exception
 * of C++, or the unwinding of a thread that ends, goes through it. */
typedef struct passage {
    rg_state *st;
    bool has_returned;
} passage;

static void leave_passage(passage *p)
{
    if (p->has_returned)
        return;
    int off = 0;
    rg__worker *w = p->st->ctx->worker;
    p->st->is_in_fn = false;
    thread_ended(w);
    pthread_setcancelstate(p->st->cancel_state, &off);
    pthread_key_delete(w->thread_end);
    w->has_thread_end = false;
}

/* The program's own code, which may end its thread. Only here can the thread be
 * cancelled: it holds no lock of rg_run then. */
static rg_status call(rg_state *st, rg_train_fn fn, void *arg)
{
    int off = 0;
    pthread_setcancelstate(st->cancel_state, &off);
    const rg_status rs = fn(st, arg);
    pthread_setcancelstate(off, &st->cancel_state);
    return rg__group_leave(st->ctx, rs);
}

static rg_status run_fn(rg_state *st, rg_train_fn fn, void *arg)
{
    st->is_in_fn = true;
    const rg_status rs = call(st, fn, arg);
    st->is_in_fn = false;
    return rs;
}

/* has_world: by rg_world_wait, which has compared the tables of sets. */
static rg_status run_generation(rg_state *st, const rg__decided *decided,
                                bool has_world, rg_train_fn fn, void *arg)
{
    rg_status rs = has_world ? RG_OK : rg__sets_sync(st->ctx);
    if (rs == RG_OK)
        rs = rg__sets_connect(st->ctx);
    if (rs != RG_OK)
        return rs;
    rg__state_note_join(st, decided);
    rs = rg__state_sync(st, decided);
    if (rs == RG_OK && st->on_reset != NULL)
        rs = call(st, st->on_reset, st->reset_arg);
    st->ctx->worker->begun_step = st->step;
    if (rs == RG_OK)
        rs = run_fn(st, fn, arg);
    if (rs == RG_OK || rg__state_has_stopped(st, rs))
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
        rg__worker_step(w, RG__ON_DONE);
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
    st->ctx->worker->waits = false;
    rg__state_show_loaded(st);
    rg__decided decided;
    bool is_done = false,
         has_world = rg__worker_has_world(st->ctx->worker, &decided);
    rg_status rs = rg__worker_door(st->ctx->worker);
    while (rs == RG_OK) {
        if (!has_world)
            rs = rg__worker_await(st->ctx->worker, &decided, &is_done);
        if (rs == RG_OK && is_done)
            rg__state_tell(st);
        if (rs != RG_OK || is_done)
            break;
        rs = judge(st, run_generation(st, &decided, has_world, fn, arg));
        has_world = false;
    }
    rg__state_note_leave(st);
    return rs;
}

static rg_status run_in_thread(rg_state *st, rg_train_fn fn, void *arg)
{
    int off = 0;
    passage p __attribute__((cleanup(leave_passage))) = {st, false};
    st->ctx->is_running = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &st->cancel_state);
    const rg_status rs = run(st, fn, arg);
    p.has_returned = true;
    st->ctx->has_failed = rs != RG_OK;
    if (rs != RG_OK)
        rg__worker_fail(st->ctx->worker, RG__RUN_FAILED);
    settle(st->ctx->worker);
    leave_run(st->ctx);
    pthread_setcancelstate(st->cancel_state, &off);
    return rs;
}

/* A value of the thread's own is dropped when the thread ends, in whatever
 * language, and needs no unwinding. */
static rg_status run_watched(rg_state *st, rg_train_fn fn, void *arg)
{
    rg__worker *w = st->ctx->worker;
    if (pthread_key_create(&w->thread_end, thread_ended) != 0 ||
        pthread_setspecific(w->thread_end, w) != 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "rg_run can't watch its thread: this process has no "
                        "key for thread-specific data left");
    w->has_thread_end = true;
    const rg_status rs = run_in_thread(st, fn, arg);
    w->has_thread_end = false;
    pthread_key_delete(w->thread_end);
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
    return run_watched(st, fn, arg);
}
