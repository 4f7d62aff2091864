/* The agent: one process per host. It holds the host's lease, starts and
 * watches its workers, owns the vault, and takes part in generations. */
#ifndef RG_ELASTIC_AGENT_H
#define RG_ELASTIC_AGENT_H

#include "elastic/agent/base/events.h"
#include "elastic/agent/base/agent_params.h"

struct rg__fdstore;

extern const rg__events rg__agent_events; /* what follows from each (agent.c) */

/* Run the agent until the job has ended or a signal asks it to stop; all its
 * workers are gone when it returns. Returns the exit code. SIGINT and SIGTERM
 * stop the job; call it in a process without other threads. keep: what outlives
 * it, borrowed; with what a killed agent left, it goes on where that was. */
int rg__agent_run(const rg__agent_params *params, struct rg__fdstore *fdstore);

#endif
