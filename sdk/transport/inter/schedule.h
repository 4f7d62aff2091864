/* Operations over several hosts that run in parts (schedule.c). */
#ifndef RG_INTER_SCHEDULE_H
#define RG_INTER_SCHEDULE_H

#include "sdk/transport/shm/shm_comm.h"

bool rg__schedule_has(rg__kind kind);

/* For a comm that has a schedule: is one under way now? */
bool rg__schedule_is_under_way(const rg__native *c);
static inline bool rg__schedule_is_running(const rg__native *c)
{
    return c->schedule != NULL && rg__schedule_is_under_way(c);
}

/* Begin c->user. */
rg_status rg__schedule_begin(rg__native *c);
/* Move data that travel beside the parts. */
void rg__schedule_turn(rg__native *c);
/* Called when no part is in flight, or one has ended well. OK: this was the
 * last one; IN_PROGRESS: there is more. */
rg_status rg__schedule_next(rg__native *c);
/* The part to begin now, and its number, from 1; 0: there is none. *is_local_p:
 * only the members on this host run it. */
uint64_t rg__schedule_take(rg__native *c, rg__coll *part, bool *is_local_p);
/* End the schedule, whatever its outcome. */
void rg__schedule_end(rg__native *c);
void rg__schedule_free(rg__native *c);

#endif
