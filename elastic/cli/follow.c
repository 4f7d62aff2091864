/* The end of a job is reported on a connection that waits for it; everything
 * else is asked for again and again. */
#include "elastic/cli/follow.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "elastic/cli/ask.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define AGAIN_MS 100 /* without an agent: a new one is there soon */

/* No process of the job is left here, so no agent will be started again. */
static rg_status fail_gone(const rg__job_record *job)
{
    return rg__fail(RG_ERR_AGENT_LOST,
                    "the agent of job %s is gone and has not said how the job "
                    "ended; look at the output of what started it",
                    job->job);
}

/* Ask and show; the silence of an agent is reported once. */
static rg_status look(rg__follow_fn fn, void *arg, bool *is_silent)
{
    const rg_status st = fn(arg);
    if (st == RG_ERR_AGENT_LOST && !*is_silent)
        rg__say("%s", rg_last_error());
    *is_silent = st == RG_ERR_AGENT_LOST;
    return ferror(stdout) ? rg__fail(RG_ERR_SYSTEM, "the output is closed")
                          : st;
}

rg_status rg__follow(const rg__job_record *job, uint64_t interval_ms,
                     rg__follow_fn fn, void *arg, rg__over *over_p,
                     char **last_p)
{
    int follower = -1;
    bool is_silent = false;
    rg_status st = RG_IN_PROGRESS;
    while (st == RG_IN_PROGRESS) {
        if (follower < 0)
            follower = rg__ask_follow(job, NULL);
        st = look(fn, arg, &is_silent);
        if (st != RG_OK && st != RG_ERR_AGENT_LOST)
            break;
        if (follower >= 0) {
            st = rg__ask_over(follower, interval_ms, over_p, last_p);
        } else if (rg__rundir_is_alive(job->path)) {
            rg__sleep_ns(AGAIN_MS * RG__MS);
            st = RG_IN_PROGRESS;
        } else {
            st = fail_gone(job);
            break;
        }
        if (st == RG_ERR_AGENT_LOST) { /* killed: is it started again? */
            close(follower);
            follower = -1;
            st = RG_IN_PROGRESS;
        }
    }
    if (follower >= 0)
        close(follower);
    return st;
}
