/* A test that stands in for the agent of one worker, its child, which is alone
 * in its world.
 *
 * Threads: one. Ownership: what is heard is borrowed until the next call. */
#ifndef TESTS_WORKER_STAND_IN_H
#define TESTS_WORKER_STAND_IN_H

#include "regroup/regroup.h"
#include "sdk/base/page.h"
#include "sdk/base/wire.h"

extern rg__page *worker_page; /* the worker's, once it is met */

void ring(void);
void tell(const void *bytes, size_t n);
/* The next message, which is of that type. */
const void *hear(rg__wire_type type);

/* In the worker's process: it registers the counter and calls rg_run, until the
 * job has ended. Both functions get its context; on_reset may be NULL. */
void stand_in_work(rg_train_fn fn, rg_reset_fn on_reset, uint64_t *counter);

/* Before the worker is made, which connects in rg_init. */
void stand_in_listen(void);
void stand_in_meet(void);
void stand_in_register(const rg__register *asked);
/* A world of one, with the port of DOOR. */
void stand_in_propose(uint64_t generation, uint32_t port);
/* To begin with the worker's memory, which becomes commit 0. */
void stand_in_decide_first(uint64_t generation);

#endif
