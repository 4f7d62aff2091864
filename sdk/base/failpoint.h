/* Failpoints: named places in test builds (REGROUP_FAILPOINTS=ON) at which a
 * worker or an agent harms itself as REGROUP_FAILPOINT says:
 *
 *   REGROUP_FAILPOINT=NAME[:CONDITION...]:ACTION[,more]
 *   REGROUP_FAILPOINT=commit.before_agree:rank3:step10:start1:kill
 *
 * conditions  rankN stepN genN   of the process that passes; agents have none
 *             startN             the Nth process in the slot, from 1
 * actions     kill stop          SIGKILL or SIGSTOP to itself
 *             segv abort exit0 exit1
 *             sleepMS            milliseconds; the thread that passes sleeps
 *
 * Each entry strikes once in a process. A malformed entry is named in a warning
 * and skipped. In other builds the macro is nothing.
 * Threads: any. */
#ifndef RG_BASE_FAILPOINT_H
#define RG_BASE_FAILPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "sdk/base/inner.h"

#ifdef RG_FAILPOINTS
#define rg__failpoint(name, rank, step, generation)                            \
    rg__failpoint_pass(name, rank, step, generation)
#else
#define rg__failpoint(name, rank, step, generation)                            \
    ((void)sizeof(rank), (void)sizeof(step), (void)sizeof(generation))
#endif

/* Which process in its slot this is; set once, before the first failpoint that
 * has a start condition. */
void rg__failpoint_start(uint32_t start);

/* This process has done something that only a failpoint makes it do. */
bool rg__failpoint_has_struck(void);

RG_INNER void rg__failpoint_pass(const char *name, int rank, uint64_t step,
                                 uint64_t generation);

#endif
