/* Messages to workers; those that the socket has no room for queue up. */
#ifndef RG_AGENT_TELL_H
#define RG_AGENT_TELL_H

#include "elastic/agent/base/agent_state.h"

void rg__worker_tell(rg__slot *s, const void *bytes, size_t n, int fd);
void rg__worker_tell_mark(rg__slot *s, rg__wire_type type, uint64_t generation);
/* Its Regroup thread looks at its page. */
void rg__worker_ring(const rg__slot *s);
void rg__worker_untell(rg__worker *w);    /* drop what waits */
void rg__workers_resend(void *agent_arg); /* a timer's */

#endif
