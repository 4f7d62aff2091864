/* A timeline of this host's workers and of each change of the world, as a file
 * in Chrome's trace format.
 *
 * Threads:   the loop's.
 * Units:     microseconds of the wall clock in the file, so that the files of
 * several hosts line up. */
#ifndef RG_AGENT_TIMELINE_H
#define RG_AGENT_TIMELINE_H

#include "elastic/agent/base/agent_state.h"

/* Begin a file, or go on with that of the agent before. ERR_INVALID: there is
 * one already, or it can't be written. */
rg_status rg__timeline_start(rg__agent *a, const char *path, bool goes_on);

/* --timeline, if it is given. An error only where the job begins. */
rg_status rg__timeline_open(rg__agent *a);

/* A worker has its record now. */
void rg__timeline_met(const rg__slot *s);

/* Write what there is and end it; *events_p are in the file, or will be where
 * the disk is stuck for a tenth of a second, and *dropped_p found no room.
 * ERR_INVALID: there is none. */
rg_status rg__timeline_stop(rg__agent *a, uint64_t *events_p,
                            uint64_t *dropped_p);

#endif
