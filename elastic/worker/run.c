/* rg_run and rg_next: a loop that follows the statuses' advice. In one turn, fn
 * or the body of the program's loop works in one generation. */
#include "elastic/state/state.h"
#include "elastic/worker/worker.h"

#include <stdio.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

#define IN_VAIN_MAX 10

/* The last generation of a finished job remains the program's world. */
static void leave_run(rg_ctx *ctx)
{
    ctx->is_running = false;
    ctx->run_frame = NULL;
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
    w->open = NULL;
    w->ctx->has_failed = true;
    rg__worker_fail(w, RG__THREAD_ENDED);
    rg__worker_stop_thread(w);
    settle(w);
    leave_run(w->ctx);
}

/* The program has left fn, or its own loop, without a status. */
static void leave_early(rg_state *state)
{
    int off = 0;
    rg__worker *w = state->ctx->worker;
    state->is_in_fn = state->is_run = false;
    thread_ended(w);
    pthread_setcancelstate(state->cancel_state, &off);
    pthread_key_delete(w->thread_end);
    w->has_thread_end = false;
}

/* The frame of rg_run that notices when fn was left without a return: a C++
 * exception, or the unwinding of a thread that ends, passes it. */
typedef struct passage {
    rg_state *state;
    bool has_returned;
} passage;

static void leave_passage(passage *p)
{
    if (!p->has_returned)
        leave_early(p->state);
}

/* The program's own code, which may end its thread. Only here can the thread be
 * cancelled: it holds no lock of rg_run then. */
static void enter_program(rg_state *state)
{
    int off = 0;
    pthread_setcancelstate(state->cancel_state, &off);
}

static rg_status leave_program(rg_state *state, rg_status st)
{
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state->cancel_state);
    return rg__group_leave(state->ctx, st);
}

static rg_status call(rg_state *state, rg_train_fn fn, void *arg)
{
    enter_program(state);
    return leave_program(state, fn(state, arg));
}

/* has_world: rg_world_wait formed it, and has compared the tables of sets. */
static rg_status prepare(rg_state *state, const rg__decided *decided,
                         bool has_world)
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
    return st;
}

/* If fn returns for a reason of its own, such as a status that it kept, no
 * other rank knows, and the generation must end for all. false: it is known. */
static bool make_known(rg__worker *w, const char *why)
{
    pthread_mutex_lock(&w->lock);
    const bool is_known =
        w->phase != RG__PHASE_DECIDED || w->entered.generation != w->taken ||
        w->broken.generation == w->taken || w->leave_agreed == w->taken ||
        atomic_load(&w->ctx->page->abort) >= w->taken;
    const uint64_t generation = w->taken;
    pthread_mutex_unlock(&w->lock);
    if (is_known)
        return false;
    rg__worker_broken(w, generation, -1, why);
    return true;
}

/* If fn returns for reasons of its own again and again, that is no change of
 * membership but a mistake, which would reset all others forever. */
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
    if (rg_last_error()[0] != '\0')
        return st;
    if (!rg__status_is_known(st))
        return rg__fail(st,
                        "the training function returned %d, which is no "
                        "rg_status; return that of a call, or RG_OK",
                        (int)st);
    return rg__fail(st, "the training function returned %s",
                    rg_status_name(st));
}

static rg_status come(rg_state *state)
{
    rg__worker *w = state->ctx->worker;
    w->registered = rg__state_registered(state);
    w->loaded = state->loaded.name[0] != '\0' ? state->loaded.hash : 0;
    w->waits = false;
    rg__state_show_loaded(state);
    w->has_world = rg__worker_has_world(w, &w->decided_here);
    rg__state_copy_ahead(state, false);
    return rg__worker_door(w);
}

/* OK: another turn follows, or the job is done. */
static rg_status end_turn(rg_state *state, rg_status st)
{
    state->is_in_fn = false;
    if (st == RG_OK || rg__state_has_stopped(state, st))
        st = rg__state_finish(state);
    return judge(state, st);
}

#define SPARE_NS (100 * RG__MS)

/* A worker without a place copies a commit ahead, and when it is about to get
 * one follows those that others make until then. */
static void follow(rg_state *state)
{
    rg__worker *w = state->ctx->worker;
    bool is_proposed = false;
    while (rg__worker_waits(w, &is_proposed)) {
        const bool copies = is_proposed || state->ahead == 0;
        if (!copies || rg__state_copy_ahead(state, is_proposed) == 0)
            rg__worker_nap(w, is_proposed ? RG__MS : SPARE_NS);
    }
}

/* Wait for the next turn. False: the loop is over, with *st_p. */
static bool begin_turn(rg_state *state, rg_status *st_p)
{
    rg__worker *w = state->ctx->worker;
    bool is_done = false;
    while (*st_p == RG_OK) {
        if (!w->has_world)
            follow(state);
        if (!w->has_world)
            *st_p = rg__worker_await(w, &w->decided_here, &is_done);
        if (*st_p == RG_OK && is_done)
            rg__state_tell(state);
        if (*st_p != RG_OK || is_done)
            return false;
        const rg_status st = prepare(state, &w->decided_here, w->has_world);
        w->has_world = false;
        state->is_in_fn = st == RG_OK;
        if (state->is_in_fn)
            return true;
        *st_p = end_turn(state, st);
    }
    return false;
}

static void begin_loop(rg_state *state)
{
    state->ctx->is_running = true;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state->cancel_state);
}

static void end_loop(rg_state *state, rg_status st)
{
    int off = 0;
    state->is_run = false;
    rg__state_note_leave(state);
    state->ctx->has_failed = st != RG_OK;
    if (st != RG_OK)
        rg__worker_fail(state->ctx->worker, RG__RUN_FAILED);
    settle(state->ctx->worker);
    leave_run(state->ctx);
    pthread_setcancelstate(state->cancel_state, &off);
}

static rg_status run(rg_state *state, rg_train_fn fn, void *arg)
{
    passage p __attribute__((cleanup(leave_passage))) = {state, false};
    begin_loop(state);
    state->is_run = true;
    state->ctx->run_thread = pthread_self();
    state->ctx->run_frame = __builtin_frame_address(0);
    rg_status st = come(state);
    while (begin_turn(state, &st))
        st = end_turn(state, call(state, fn, arg));
    p.has_returned = true;
    end_loop(state, st);
    return st;
}

/* A thread-specific value is dropped when the thread ends, in any language, and
 * needs no unwinding. */
static rg_status watch_thread(rg__worker *w)
{
    if (pthread_key_create(&w->thread_end, thread_ended) != 0 ||
        pthread_setspecific(w->thread_end, w) != 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "rg_run can't watch its thread: this process has no "
                        "key for thread-specific data left");
    w->has_thread_end = true;
    return RG_OK;
}

static void end_watch(rg__worker *w)
{
    w->has_thread_end = false;
    pthread_key_delete(w->thread_end);
}

static rg_status check_may_run(const rg_state *state)
{
    if (state->ctx->is_rank)
        return rg__fail(RG_ERR_INVALID,
                        "rg_run was called by a rank of --mpi; call "
                        "rg_state_resume and end steps outside of any fn, or "
                        "start the program without --mpi");
    if (!state->ctx->is_elastic)
        return rg__fail(RG_ERR_INVALID, "rg_run needs an elastic program: set "
                                        "rg_params.elastic = 1 in rg_init");
    if (state->ctx->is_running)
        return rg__fail(RG_ERR_INVALID,
                        "rg_run is running already; call it outside "
                        "of fn");
    if (rg__worker_is_done(state->ctx->worker))
        return rg__fail(RG_ERR_INVALID,
                        "the job is done; rg_run runs once in a process");
    if (state->ctx->has_failed)
        return rg__fail(RG_ERR_INVALID, "rg_run has failed in this process; "
                                        "end it, and its slot starts again");
    return RG_OK;
}

rg_status rg_run(rg_state *state, rg_train_fn fn, void *arg)
{
    if (state == NULL || fn == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_run needs a state and a function");
    rg_status st = check_may_run(state);
    if (st == RG_OK)
        st = watch_thread(state->ctx->worker);
    if (st != RG_OK)
        return st;
    st = run(state, fn, arg);
    end_watch(state->ctx->worker);
    return st;
}

/* -------------------------------------------------------- the program's loop
 * The same, with the program's statements between two calls in the place of
 * fn. Nothing of ours is on the stack meanwhile: a loop that is left early is
 * noticed by what the program calls next. */

static void abandon(rg_state *state)
{
    if (state->ctx->worker->open != state)
        return;
    rg__log(RG__ERROR, "worker",
            "the loop of rg_next was left before rg_next had returned 0; this "
            "worker leaves the job, and the others go on without it");
    leave_early(state);
}

void rg__worker_close_loop(rg__worker *w)
{
    if (w->open != NULL)
        abandon(w->open);
}

static rg_status open_loop(rg_state *state)
{
    rg__worker *w = state->ctx->worker;
    rg_status st = check_may_run(state);
    if (st == RG_OK)
        st = watch_thread(w);
    if (st != RG_OK)
        return st;
    w->open = state;
    w->loop_thread = pthread_self();
    state->abandon = abandon;
    begin_loop(state);
    return come(state);
}

static int close_loop(rg_state *state, rg_status st)
{
    state->ctx->worker->open = NULL;
    end_loop(state, st);
    end_watch(state->ctx->worker);
    return 0;
}

static bool is_open(const rg_state *state)
{
    return state->ctx->worker->open == state;
}

static rg_status go_on(rg_state *state, rg_status st)
{
    return is_open(state) ? end_turn(state, leave_program(state, st))
                          : open_loop(state);
}

static rg_status check_next(const rg_state *state)
{
    if (state == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_next needs a state");
    if (is_open(state) &&
        !pthread_equal(state->ctx->worker->loop_thread, pthread_self()))
        return rg__fail(RG_ERR_INVALID, "rg_next was called on another thread "
                                        "than its loop's");
    if (is_open(state) && !state->is_in_fn)
        return rg__fail(RG_ERR_INVALID, "rg_next was called inside of a "
                                        "function that Regroup calls; it "
                                        "belongs in its loop's condition");
    return RG_OK;
}

int rg_next(rg_state *state, rg_status *st_p)
{
    if (st_p == NULL || (*st_p != RG_OK && (state == NULL || !is_open(state))))
        return 0;
    rg_status st = check_next(state);
    if (st != RG_OK) {
        *st_p = st;
        return 0;
    }
    *st_p = go_on(state, *st_p);
    if (!is_open(state)) /* it was not opened */
        return 0;
    if (!begin_turn(state, st_p))
        return close_loop(state, *st_p);
    enter_program(state);
    return 1;
}
