/* The state of this room. No other room looks into it. */
#ifndef RG_AGENT_CREW_PARTS_H
#define RG_AGENT_CREW_PARTS_H

#include "elastic/agent/base/agent_state.h"

struct rg__crew {
    rg__timer *ping;
    rg__timer *missed_timer;   /* the world of a job that is done ends */
    struct rlimit descriptors; /* as we were started */
    char socket_path[108];
    rg__guest *guests;    /* the newest first */
    uint64_t refusals_ns; /* since then, */
    unsigned refusals;    /* so many were refused */
    uint32_t sets_asked;  /* how often workers were asked for their sets */
};

#endif
