/* Accepting connections, of workers and commands at one listener and of other
 * agents at another. Without a descriptor left, both pause for a moment. */
#ifndef RG_AGENT_ACCEPT_H
#define RG_AGENT_ACCEPT_H

#include "elastic/agent/base/agent_state.h"

int rg__agent_accept(rg__agent *a, int listener); /* -1: none */
void rg__accept_drop(rg__agent *a);

#endif
