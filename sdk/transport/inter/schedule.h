/* Operations over several hosts that are made of others (schedule.c). */
#ifndef RG_INTER_SCHEDULE_H
#define RG_INTER_SCHEDULE_H

#include "sdk/transport/shm/shm_comm.h"

bool rg__schedule_has(rg__kind kind);

/* Of a comm that has composed before: is it composing now? */
bool rg__schedule_is_under_way(const rg__native *c);
static inline bool rg__schedule_is_running(const rg__native *c)
{
    return c->schedule != NULL && rg__schedule_is_under_way(c);
}

/* Begin c->user. */
rg_status rg__schedule_begin(rg__native *c);
/* Move what travels beside the parts. */
void rg__schedule_turn(rg__native *c);
/* No part is in flight, or one has ended well: OK at the end, IN_PROGRESS while
 * there is more. */
rg_status rg__schedule_next(rg__native *c);
/* The part that is to be begun now, by the members of this host alone or by
 * all, and its number, from 1; 0: there is none. */
uint64_t rg__schedule_take(rg__native *c, rg__coll *part, bool *is_local_p);
/* Whatever its outcome. */
void rg__schedule_end(rg__native *c);
void rg__schedule_free(rg__native *c);

#endif
