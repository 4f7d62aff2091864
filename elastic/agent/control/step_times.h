/* Step times of this host's workers, for the status document. */
#ifndef RG_AGENT_STEP_TIMES_H
#define RG_AGENT_STEP_TIMES_H

#include <jansson.h>

#include "elastic/agent/base/agent_state.h"

/* "step_ms" and "waiting", the share of it in which the worker waited for
 * operations; null while they are not known. s may be NULL. */
void rg__step_times_add(const rg__slot *s, json_t *worker);

/* The worker here that computes clearly longer than the others, or null. */
json_t *rg__step_times_slowest(const rg__agent *a);

#endif
