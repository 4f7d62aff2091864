/* What only agent.c wires: opening the job, taking over from a killed agent. */
#ifndef RG_AGENT_WIRING_H
#define RG_AGENT_WIRING_H

#include "elastic/agent/base/agent_state.h"

/* open_job.c */
rg_status rg__open_names(rg__agent *a); /* of the job that we would make */
void rg__open_job(rg__agent *a);
void rg__open_on_late(rg__agent *a); /* it is not open for too long */
void rg__agent_take_lease(rg__agent *a, const rg__meta *meta);
/* Tell the supervisor the bounds of the world, and that the job is open. */
void rg__agent_tell_sizes(rg__agent *a);
/* etcd has another job's keys, or none: this agent ends. */
void rg__agent_end_wiped(rg__agent *a);

/* takeover.c: all but what takes notes do nothing unless an agent was there
   before.
 */
/* The job that we are about to write into etcd, and that of an agent before us
 * that did not live to learn that it is written. */
void rg__resume_note_job(rg__agent *a);
void rg__resume_job(rg__agent *a);
void rg__resume_note(rg__agent *a); /* what the next agent would have to know */
bool rg__resume_names(rg__agent *a); /* true: there was one */
void rg__resume_begin(rg__agent *a);
void rg__resume_look(rg__agent *a); /* a worker stands, or is dead */
void rg__resume_view(rg__agent *a); /* the job's keys are here */

#endif
