/* Programs without fn: the ranks of one mpirun, under --mpi. Their world forms
 * in rg_init and is never formed again in the same process: when it breaks, the
 * agents end all ranks and launch them again, and those resume here. */
#include "elastic/state/state.h"
#include "elastic/worker/worker.h"

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"

static rg_status check_place(const rg_state *st)
{
    if (!st->ctx->is_rank)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_resume is for ranks of `regroup run --mpi`; "
                        "elsewhere the memory of a state is restored by "
                        "rg_run, or filled by rg_state_load");
    if (st->is_in_fn || st->ctx->resumed != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_resume was called before; call it once, with "
                        "one state");
    return RG_OK;
}

/* All ranks have registered the same buffers. */
static rg_status compare_buffers(rg_state *st)
{
    const int64_t mine = (int64_t)(rg__state_registered(st) >> 1);
    const int64_t in[4] = {mine, -mine, 0, 0};
    int64_t out[4];
    const rg_status rs = rg__world_agree(st->ctx, "rg_state_resume",
                                         RG__STATE_AGREE_RESUME, in, out);
    if (rs != RG_OK || out[0] == -out[1])
        return rs;
    return rg__fail(RG_ERR_MISMATCH,
                    "ranks have registered different buffers; call "
                    "rg_state_add with the same names and sizes, in the same "
                    "order, on all of them");
}

/* Where no launch before has left a commit, a checkpoint may be there. */
static rg_status load(rg_state *st, const rg__decided *decided)
{
    uint64_t step = 0;
    if (decided->resume.generation != 0)
        return RG_OK;
    const rg_status rs = rg_state_load(st, NULL, &step);
    return rs == RG_ERR_NOT_FOUND ? RG_OK : rs;
}

rg_status rg_state_resume(rg_state *st, uint64_t *step_p)
{
    rg__decided decided;
    if (st == NULL || step_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_resume needs a state and a place for the "
                        "step");
    rg_status rs = check_place(st);
    if (rs != RG_OK)
        return rs;
    if (!rg__worker_has_world(st->ctx->worker, &decided))
        return rg__fail(RG_ERR_PEER_LOST,
                        "the launch is over, and this process will be ended; "
                        "the next launch resumes");
    rs = compare_buffers(st);
    if (rs == RG_OK)
        rs = load(st, &decided);
    if (rs == RG_OK)
        rs = rg__sets_connect(st->ctx);
    if (rs != RG_OK)
        return rs;
    rg__state_note_join(st, &decided);
    rs = rg__state_sync(st, &decided);
    if (rs != RG_OK)
        return rs;
    st->is_in_fn = true;
    st->ctx->resumed = st;
    *step_p = st->step;
    return st->step != 0
               ? RG_OK
               : rg__fail(RG_ERR_NOT_FOUND,
                          "no step has been committed: begin with the first");
}

/* ------------------------------------------------------------------ the end
 */

/* All ranks have come to rg_finalize: the work is done, and a death from now on
 * is no reason for another launch. */
static rg_status meet_at_end(rg_ctx *ctx)
{
    const int64_t in[4] = {0};
    int64_t out[4];
    if (ctx->resumed != NULL)
        return rg__state_finish(ctx->resumed);
    rg_status st = rg__sets_settle(ctx);
    if (st == RG_OK)
        st = rg__world_agree(ctx, "rg_finalize", RG__STEP_TAG, in, out);
    return st;
}

/* OK without a world: the launch is over, and there is nothing to say. */
rg_status rg__worker_finish_launch(rg_ctx *ctx)
{
    rg__worker *w = ctx->worker;
    rg__decided decided;
    bool is_done = false;
    if (!ctx->is_rank || !rg__worker_has_world(w, &decided))
        return RG_OK;
    rg_status st = meet_at_end(ctx);
    if (st == RG_OK)
        st = rg__worker_finished(w);
    if (st == RG_OK)
        st = rg__worker_await(w, &decided, &is_done);
    if (ctx->resumed != NULL)
        rg__state_note_leave(ctx->resumed);
    return st;
}
