/* Programs without fn: the ranks of one mpirun, under --mpi or without agents.
 * Their world forms in rg_init and is never formed again in the same process.
 * Under --mpi the agents end all ranks when it breaks and launch them again,
 * and those resume here; without agents a launch leaves only checkpoints to the
 * next. */
#include "elastic/state/state.h"
#include "elastic/worker/worker.h"

#include "sdk/base/fail.h"
#include "sdk/base/log.h"

static rg_status check_place(const rg_state *state)
{
    const rg_ctx *ctx = state->ctx;
    if (!ctx->is_rank && (ctx->has_agent || ctx->is_elastic))
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_resume is for ranks of `regroup run --mpi`, "
                        "of mpirun, or a static program alone; elsewhere the "
                        "memory of a state is restored by rg_run, or filled by "
                        "rg_state_load");
    if (ctx->resumed == NULL && !state->is_in_fn)
        return RG_OK;
    rg__decided decided;
    if (ctx->resumed != state || !ctx->is_rank ||
        (ctx->worker->mend_ms == 0 &&
         rg__worker_has_world(ctx->worker, &decided)))
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_resume was called before; call it once, with "
                        "one state");
    return RG_OK;
}

/* All ranks have registered the same buffers. */
static rg_status compare_buffers(rg_state *state)
{
    const int64_t mine = (int64_t)(rg__state_registered(state) >> 1);
    const int64_t in[4] = {mine, -mine, 0, 0};
    int64_t out[4];
    const rg_status st = rg__world_agree(state->ctx, "rg_state_resume",
                                         RG__STATE_AGREE_RESUME, in, out);
    if (st != RG_OK || out[0] == -out[1])
        return st;
    return rg__fail(RG_ERR_MISMATCH,
                    "ranks have registered different buffers; call "
                    "rg_state_add with the same names and sizes, in the same "
                    "order, on all of them");
}

/* Without agents no vault keeps commits; a warning says so. */
static void warn_of_loss(const rg_state *state)
{
    const rg_ctx *ctx = state->ctx;
    if (!ctx->has_agent && ctx->checkpoint[0] == '\0' && ctx->now.rank == 0)
        rg__log(RG__WARN, "state",
                "without agents and a directory for checkpoints nothing that "
                "is committed outlives this program; name one "
                "(REGROUP_CHECKPOINT_DIR), or use `regroup run --mpi`");
}

/* If no earlier launch has left a commit, there may be a checkpoint. */
static rg_status load(rg_state *state, const rg__decided *decided)
{
    uint64_t step = 0;
    if (decided->resume.generation != 0)
        return RG_OK;
    const rg_status st = rg_state_load(state, NULL, &step);
    return st == RG_ERR_NOT_FOUND ? RG_OK : st;
}

/* Take a world in which this rank has not resumed yet. If ranks don't go on in
 * place none comes, and the agent ends this one. */
static rg_status take_world(rg_state *state, rg__decided *decided)
{
    rg__worker *w = state->ctx->worker;
    bool is_done = false;
    const bool is_here = !state->is_in_fn && rg__worker_has_world(w, decided);
    const uint64_t synced = is_here ? decided->generation : 0; /* by rg_init */
    rg_status st = RG_OK;
    if (!is_here && w->mend_ms == 0 && !state->is_in_fn)
        return rg__fail(RG_ERR_PEER_LOST,
                        "the launch is over, and this process will be ended; "
                        "the next launch resumes");
    if (state->is_in_fn)
        st = rg__worker_leave_to_come_back(state,
                                           "rg_state_resume was called again");
    state->is_in_fn = false;
    if (st == RG_OK && !is_here)
        st = rg__worker_await(w, decided, &is_done);
    if (st == RG_OK)
        st = rg__worker_mend(w, decided);
    return st == RG_OK && decided->generation != synced
               ? rg__sets_sync(state->ctx)
               : st;
}

static rg_status resume(rg_state *state)
{
    rg__decided decided;
    rg_status st = take_world(state, &decided);
    if (st != RG_OK)
        return st;
    state->is_in_fn = true; /* even if it breaks before */
    state->outlives = state->ctx->worker->mend_ms != 0;
    warn_of_loss(state);
    st = compare_buffers(state);
    if (st == RG_OK)
        st = load(state, &decided);
    if (st == RG_OK)
        st = rg__sets_connect(state->ctx);
    if (st != RG_OK)
        return st;
    rg__state_note_join(state, &decided);
    st = rg__state_sync(state, &decided);
    if (st == RG_OK)
        state->ctx->worker->begun_step = state->step;
    return st;
}

rg_status rg_state_resume(rg_state *state, uint64_t *step_p)
{
    if (state == NULL || step_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_resume needs a state and a place for the "
                        "step");
    rg_status st = check_place(state);
    if (st != RG_OK)
        return st;
    do
        st = resume(state);
    while (st == RG_ERR_PEER_LOST && state->ctx->worker->mend_ms != 0);
    if (st != RG_OK) {
        state->is_in_fn = false;
        return st;
    }
    state->is_resumed = true;
    state->ctx->resumed = state;
    *step_p = state->step;
    return state->step != 0
               ? RG_OK
               : rg__fail(RG_ERR_NOT_FOUND,
                          "no step has been committed: begin with the first");
}

/* ------------------------------------------------------------------ the end */

/* All ranks have come to rg_finalize: the work is done, and a death from now on
 * does not cause another launch. */
static rg_status meet_at_end(rg_ctx *ctx)
{
    const int64_t in[4] = {0};
    int64_t out[4];
    if (ctx->has_finished)
        return ctx->finish_st;
    if (ctx->resumed != NULL)
        return rg__state_finish(ctx->resumed);
    rg_status st = rg__sets_settle(ctx);
    if (st == RG_OK)
        st = rg__world_agree(ctx, "rg_finalize", RG__STEP_TAG, in, out);
    return st;
}

/* Others would go on in place without a rank that has come to its end: all are
 * launched again, and the agent ends this one. */
static rg_status end_with_launch(rg__worker *w)
{
    rg__decided decided;
    bool is_done = false;
    rg_status st = RG_OK;
    rg__worker_ask_launch(w, "a rank was lost when it had come to rg_finalize");
    while (st == RG_OK && !is_done)
        st = rg__worker_await(w, &decided, &is_done);
    return st;
}

/* A commit told all ranks to leave: there is nothing left to agree on, even
 * while the Regroup thread has not left yet. */
static bool has_left_by_agreement(const rg_ctx *ctx)
{
    return ctx->resumed != NULL && ctx->resumed->is_clean;
}

/* OK without a world: the launch is over, and there is nothing to report. */
rg_status rg__worker_finish_launch(rg_ctx *ctx)
{
    rg__worker *w = ctx->worker;
    rg__decided decided;
    bool is_done = false;
    if (ctx->resumed != NULL)
        ctx->resumed->is_resumed = false;
    const bool is_here = rg__worker_has_world(w, &decided);
    const bool mends = w->mend_ms != 0;
    if (has_left_by_agreement(ctx))
        return RG_OK;
    if (!is_here && mends)
        return end_with_launch(w);
    if (!is_here ||
        !(ctx->is_rank || ctx->resumed != NULL || ctx->has_finished))
        return RG_OK;
    rg_status st = meet_at_end(ctx);
    if (st == RG_OK && ctx->is_rank)
        st = rg__worker_finished(w);
    if (st == RG_OK && ctx->is_rank)
        st = rg__worker_await(w, &decided, &is_done);
    if (ctx->resumed != NULL)
        rg__state_note_leave(ctx->resumed);
    const bool is_lost =
        st == RG_ERR_PEER_LOST || (st == RG_OK && ctx->is_rank && !is_done);
    return is_lost && mends ? end_with_launch(w) : st;
}
