/* What the leader does next: a pure function of one snapshot and the clock.
 * Nothing in the leader's memory matters but the waiting times, which a new
 * leader starts afresh. */
#ifndef RG_MEMBER_PLAN_H
#define RG_MEMBER_PLAN_H

#include "elastic/member/records.h"

typedef struct rg__plan_config {
    int min, max;
    uint64_t start_timeout_ns;   /* then --min is enough for the first world */
    uint64_t elastic_timeout_ns; /* below --min: give up */
    uint64_t last_call_ns;       /* newcomers within it share one change */
} rg__plan_config;

/* Since when the leader waits; 0: it doesn't. Kept between calls. */
typedef struct rg__plan_clock {
    uint64_t forming_ns, newcomer_ns, below_min_ns;
} rg__plan_clock;

typedef enum rg__plan_kind {
    RG__PLAN_WAIT,
    RG__PLAN_PROPOSE,
    RG__PLAN_DECIDE,
    RG__PLAN_DONE,
    RG__PLAN_GIVE_UP /* below --min for longer than --elastic-timeout */
} rg__plan_kind;

typedef struct rg__plan {
    rg__plan_kind kind;
    uint64_t look_again_ns; /* WAIT: at the latest after this long; 0: never */
    rg__proposal proposal;  /* PROPOSE */
    rg__line line;          /* DECIDE: all but the time */
    int alive;              /* workers that could be in the next world */
} rg__plan;

rg_status rg__plan_make(const rg__snapshot *snap, const rg__plan_config *config,
                        uint64_t now_ns, rg__plan_clock *clock,
                        rg__plan *plan_p);
void rg__plan_free(rg__plan *plan); /* what it owns */

/* The newest commit on the lineage among those that acks of `generation`
 * report; {0, 0}: none. */
rg__commit_id rg__plan_resume(const rg__snapshot *snap, uint64_t generation);

#endif
