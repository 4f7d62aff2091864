/* What workers print. */
#ifndef RG_AGENT_OUTPUT_H
#define RG_AGENT_OUTPUT_H

#include "elastic/agent/base/agent_state.h"

/* output.c */
rg_status rg__printer_create(rg__agent *a);
void rg__printer_destroy(rg__agent *a);
bool rg__outputs_are_open(const rg__agent *a); /* not all is written yet */
rg_status rg__output_open(rg__slot *s, int out[2], int err[2]);
/* Its process has ended; what it printed is written, now or soon. */
void rg__output_close(rg__slot *s);
void rg__outputs_resume(rg__agent *a); /* those of an earlier agent */

#endif
