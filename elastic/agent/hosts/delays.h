/* How late heartbeats and this agent's own turns have been lately, and how long
 * a host may be silent because of that. Pure functions; the time is given.
 *
 *   budget = FACTOR times the longest delay of the last ten minutes,
 *            at least LEAST, at most MOST
 *
 * A new observer knows nothing: for TURN_NS its budget is not below the one
 * with which it begins. What it sees in that time, while programs start, counts
 * only in that time. A delay above MOST is a fault and not noise: no budget
 * would have covered it. */
#ifndef RG_AGENT_DELAYS_H
#define RG_AGENT_DELAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "sdk/base/clock.h"

#define RG__DELAYS_LEAST_NS (300 * RG__MS)
#define RG__DELAYS_MOST_NS  (3000 * RG__MS)
#define RG__DELAYS_FACTOR   4
#define RG__DELAYS_TURN_NS  (20000 * RG__MS)
#define RG__DELAYS_TURNS    30
#define RG__DELAYS_STEP_NS  (50 * RG__MS) /* budgets are multiples of it */

typedef struct rg__delays {
    uint64_t begun_ns; /* 0: nothing noted yet */
    struct {
        uint64_t number, worst_ns;
    } turn[RG__DELAYS_TURNS];
} rg__delays;

/* Something came so late; 0 says that it came in time. */
void rg__delays_note(rg__delays *d, uint64_t now_ns, uint64_t late_ns);
/* The longest that still counts. */
uint64_t rg__delays_worst(const rg__delays *d, uint64_t now_ns);
uint64_t rg__delays_budget(const rg__delays *d, uint64_t now_ns,
                           uint64_t first_ns);

#endif
