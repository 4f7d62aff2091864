/* What workers print. */
#ifndef RG_AGENT_OUTPUT_H
#define RG_AGENT_OUTPUT_H

#include "elastic/agent/base/agent_state.h"

/* output.c */
rg_status rg__printer_create(agent *a);
void rg__printer_destroy(agent *a);
bool rg__outputs_are_open(const agent *a); /* not all is written yet */
rg_status rg__output_open(slot *s, int out[2], int err[2]);
/* Its process has ended; what it printed is written, now or soon. */
void rg__output_close(slot *s);
void rg__outputs_resume(agent *a); /* those of an earlier agent */

#endif
