/* Questions to the agents of a job that runs here, over their sockets. */
#ifndef RG_ELASTIC_ASK_H
#define RG_ELASTIC_ASK_H

#include <stdint.h>

#include "elastic/cli/rundir.h"
#include "regroup/regroup.h"

/* The job's status document as JSON text; *text_p is the caller's to free.
 * ERR_AGENT_LOST: no agent answers. */
rg_status rg__ask_status(const rg__job_record *job, uint64_t timeout_ms,
                         char **text_p);

/* Ask the job to stop, and wait for the end of its agents here and of the
 * process that started it. ERR_AGENT_LOST: no agent was there to ask.
 * IN_PROGRESS: it has not ended within the time. */
rg_status rg__ask_stop(const rg__job_record *job, uint64_t timeout_ms);

#endif
