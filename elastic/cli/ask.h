/* Questions to the agents of a job that runs here, over their sockets. */
#ifndef RG_ELASTIC_ASK_H
#define RG_ELASTIC_ASK_H

#include <stdint.h>

#include "elastic/cli/rundir.h"
#include "regroup/regroup.h"
#include "sdk/base/wire.h"

/* Answers are JSON texts, the caller's to free, and come within five seconds.
 * ERR_AGENT_LOST: no agent answers. */
rg_status rg__ask_status(const rg__job_record *job, char **text_p);
/* The events of the job, from a generation on. */
rg_status rg__ask_events(const rg__job_record *job, uint64_t from,
                         char **text_p);
/* Ask a host to leave: {"ok":true}, or {"error":"why","status":number}. */
rg_status rg__ask_drain(const rg__job_record *job, const char *host,
                        uint64_t deadline_ms, char **text_p);

/* Give the world other bounds; 0: keep that one. {"ok":true, min, max, size},
 * or an error as for a drain. */
rg_status rg__ask_scale(const rg__job_record *job, int min, int max,
                        char **text_p);

/* What all workers are doing, as JSON or text; wants: flags RG__DUMP_... */
rg_status rg__ask_dump(const rg__job_record *job, uint64_t wants,
                       char **text_p);

/* Begin a timeline in that file, or end it ("": ok, events, dropped). */
rg_status rg__ask_timeline(const rg__job_record *job, const char *path,
                           char **text_p);

/* A connection on which that host's agent (NULL: any agent here) will report
 * its end; -1: no agent is there. The caller closes it. */
int rg__ask_follow(const rg__job_record *job, const char *host);
/* Tell that host's agent, or the next one, to leave, as a signal from outside
 * would; at_once: as a second signal would. */
void rg__ask_leave(const rg__job_record *job, const char *host, bool at_once);
/* The end, and the job's events up to it, or NULL. IN_PROGRESS: the time was
 * too short. ERR_AGENT_LOST: the agent ended without a message. */
rg_status rg__ask_over(int follower, uint64_t timeout_ms, rg__over *over_p,
                       char **last_p);

/* Ask the job to stop, and wait for the end of its agents here and of the
 * process that started it. ERR_AGENT_LOST: no agent was there to ask.
 * IN_PROGRESS: it has not ended within the time. */
rg_status rg__ask_stop(const rg__job_record *job, uint64_t timeout_ms);

#endif
