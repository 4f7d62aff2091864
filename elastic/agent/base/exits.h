/* The two exits of an agent.
 *
 * This host leaves and the job goes on: for whatever goes wrong on this host
 * that its agent can't survive. The others are told that it is gone; before the
 * job is opened there are none to tell. The job ends on all hosts: only when an
 * operator or the program asks for it. (The leader ends it for what is wrong
 * with the whole, leader.c.) The first call counts. */
#ifndef RG_AGENT_EXITS_H
#define RG_AGENT_EXITS_H

#include <stdarg.h>

#include "elastic/agent/base/agent_state.h"

void rg__agent_leave(rg__agent *a, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Has etcd answered a request? If it has refused it for good, with the reason
 * in rg_last_error, this host leaves. */
bool rg__agent_has_answer(rg__agent *a, rg_status st);
void rg__agent_end_job(rg__agent *a, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* For what makes an agent: RG_OK, or that there is no memory for it. */
rg_status rg__agent_made(bool is_made);
/* False, and nothing is set, when this agent is ending already. */
bool rg__agent_set_why(rg__agent *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

#endif
