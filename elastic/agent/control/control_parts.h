/* The state of this room. No other room looks into it. */
#ifndef RG_AGENT_CONTROL_PARTS_H
#define RG_AGENT_CONTROL_PARTS_H

#include "elastic/agent/base/agent_state.h"

struct rg__control {
    rg__asked *questions;
    struct rg__change_ask *change_asks;
    rg__scrape *scrape;
    char metrics_at[64]; /* where metrics are shown; "": nowhere */
};

#endif
