/* The state of this room. No other room looks into it. */
#ifndef RG_AGENT_CONTROL_PARTS_H
#define RG_AGENT_CONTROL_PARTS_H

#include "elastic/agent/base/agent_state.h"
#include "elastic/agent/dump/dump.h"

struct rg__control {
    rg__asked *questions;
    rg__gather *gather; /* of step times, for all questions that wait; NULL:
                           none is under way */
    json_t *times;      /* what the last one has brought; owned */
    struct rg__change_ask *change_asks;
    struct rg__timeline_ask *timeline_ask; /* NULL: none is under way */
    rg__scrape *scrape;
    char metrics_at[64]; /* where metrics are shown; "": nowhere */
};

#endif
