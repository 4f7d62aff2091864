/* Step times of the job's workers, for the status document. */
#ifndef RG_AGENT_STEP_TIMES_H
#define RG_AGENT_STEP_TIMES_H

#include <jansson.h>

#include "elastic/agent/base/agent_state.h"

/* Workers by host: of this one as they are now, and of those that have
 * answered (a gather of dump.h, with errors for the others). New. */
json_t *rg__step_times_by_host(const rg__agent *a, const json_t *parts);

/* "step", "step_ms" and "waiting", the share of it in which the worker waited
 * for operations; null where they are not known. */
void rg__step_times_add(const json_t *by_host, const char *host,
                        const rg__slot_record *r, json_t *worker);

/* The worker that computes clearly longer than the others, or null; of a status
 * document's hosts. */
json_t *rg__step_times_slowest(const json_t *hosts);

#endif
