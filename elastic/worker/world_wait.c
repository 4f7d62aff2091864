/* rg_world_wait: the first world, before rg_run. A worker gets its rank there
 * only once: the agent ends it, and all of that world with it, if the
 * generation breaks before its first commit. */
#include "elastic/worker/worker.h"

#include "sdk/base/fail.h"

/* A worker that did not take part in comparing the tables of sets waits for the
 * next first generation. */
static rg_status form(rg_ctx *ctx, bool *is_joining_p)
{
    rg__worker *w = ctx->worker;
    w->waits = true;
    rg_status st = rg__worker_door(w);
    while (st == RG_OK) {
        st = rg__worker_await_first(w, is_joining_p);
        if (st != RG_OK || *is_joining_p)
            return st;
        st = rg__sets_sync(ctx);
        if (st == RG_OK)
            st = rg__sets_connect(ctx);
        if (st != RG_ERR_PEER_LOST)
            return st;
        st = RG_OK;
    }
    return st;
}

static rg_status wait_for_world(rg_ctx *ctx)
{
    bool is_joining = false;
    const rg_status st = form(ctx, &is_joining);
    if (st == RG_OK)
        return is_joining ? RG_JOINING : RG_OK;
    ctx->has_failed = true;
    rg__worker_fail(ctx->worker, RG__RUN_FAILED);
    rg__context_set_computing(ctx, false);
    return st;
}

rg_status rg_world_wait(rg_ctx *ctx)
{
    rg__decided decided;
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_world_wait needs a context");
    rg__worker *w = ctx->worker;
    if (!ctx->is_elastic || rg__worker_is_done(w))
        return RG_OK;
    if (ctx->is_running)
        return rg__fail(RG_ERR_INVALID,
                        "rg_world_wait was called inside rg_run, where there "
                        "is a world; call it before");
    if (ctx->has_failed)
        return rg__fail(RG_ERR_INVALID,
                        "rg_run or rg_world_wait has failed in this process; "
                        "end it, and its slot starts again");
    if (w->taken == 0)
        return wait_for_world(ctx);
    return rg__worker_has_world(w, &decided)
               ? RG_OK
               : rg__fail(RG_ERR_PEER_LOST,
                          "the first generation has ended before its first "
                          "commit; this process will be ended, and started "
                          "again with the others");
}
