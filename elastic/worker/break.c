/* rg_on_break: tells a program that its generation has broken, while its thread
 * may be waiting in a communicator of its own. Each break gets a thread, so the
 * Regroup thread keeps answering the agent, and a slow function holds up this
 * worker alone. */
#include "elastic/worker/worker.h"

#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/start_thread.h"

/* A generation that the user thread has not taken up is not reported. */
void rg__break_note(rg__worker *w)
{
    if (w->on_break == NULL || w->wants_stop || w->phase == RG__PHASE_DONE ||
        w->entered.generation == 0 || w->entered.generation != w->taken)
        return;
    w->breaking = w->taken;
    w->is_break_new = true;
}

static void *tell(void *arg)
{
    rg__worker *w = arg;
    w->on_break(w->ctx, w->breaking, w->break_arg);
    pthread_mutex_lock(&w->lock);
    w->breaking = 0;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void rg__break_tell(rg__worker *w)
{
    pthread_t thread;
    pthread_mutex_lock(&w->lock);
    const bool is_due = w->is_break_new;
    w->is_break_new = false;
    pthread_mutex_unlock(&w->lock);
    if (!is_due)
        return;
    if (rg__start_thread(&thread, tell, w) == 0) {
        pthread_detach(thread);
    } else {
        rg__log(RG__WARN, "worker",
                "a thread for the function of rg_on_break can't be made: it is "
                "called on the Regroup thread");
        tell(w);
    }
}

void rg__break_await(rg__worker *w)
{
    while (w->breaking != 0)
        pthread_cond_wait(&w->changed, &w->lock);
}

rg_status rg_on_break(rg_ctx *ctx, rg_break_fn fn, void *arg)
{
    if (ctx == NULL || ctx->is_running)
        return rg__fail(RG_ERR_INVALID, "rg_on_break needs a context, and a "
                                        "place before rg_run");
    pthread_mutex_lock(&ctx->worker->lock);
    ctx->worker->on_break = fn;
    ctx->worker->break_arg = arg;
    pthread_mutex_unlock(&ctx->worker->lock);
    return RG_OK;
}
