/* Looking at a job until it ends.
 *
 * Threads:   one.
 * Waiting:   as long as the job lives. */
#ifndef RG_ELASTIC_FOLLOW_H
#define RG_ELASTIC_FOLLOW_H

#include "elastic/cli/rundir.h"
#include "sdk/base/wire.h"

/* Ask and show. ERR_AGENT_LOST: no agent answers just now, which is reported
 * once; any other status ends the looking. */
typedef rg_status (*rg__follow_fn)(void *arg);

/* Call fn now and every interval, until the job ends here. An agent that was
 * started again meanwhile is found. *over_p: how it ended; *last_p: what has
 * happened to it until its end, as JSON, the caller's to free; NULL: not told.
 * ERR_AGENT_LOST: the agent ended without a message. */
rg_status rg__follow(const rg__job_record *job, uint64_t interval_ms,
                     rg__follow_fn fn, void *arg, rg__over *over_p,
                     char **last_p);

#endif
