/* Looking at a job until it ends.
 *
 * Threads:   one.
 * Waiting:   as long as the job lives. */
#ifndef RG_ELASTIC_FOLLOW_H
#define RG_ELASTIC_FOLLOW_H

#include "elastic/cli/rundir.h"
#include "sdk/base/wire.h"

/* Ask and show. ERR_AGENT_LOST: no agent answers just now, which is reported
 * once; any other error ends the following. */
typedef rg_status (*rg__follow_fn)(void *arg);

/* Call fn now and every interval, until the job ends here. An agent that was
 * started again meanwhile is found. *over_p: how the job ended; *last_p: its
 * events up to the end, as JSON that the caller frees; NULL: not reported.
 * ERR_AGENT_LOST: the agent ended without a message. */
rg_status rg__follow(const rg__job_record *job, uint64_t interval_ms,
                     rg__follow_fn fn, void *arg, rg__over *over_p,
                     char **last_p);

#endif
