/* The layout `late`: what a set takes alone, and while another one waits for
 * its last rank.
 *
 * Threads: one. Collective over the world. */
#ifndef TESTS_BENCH_COLLECTIVES_LATE_H
#define TESTS_BENCH_COLLECTIVES_LATE_H

#include "tests/bench/collectives/measure.h"

/* Of a rank; NULL where it is no member. */
typedef struct late {
    work *here;   /* on the set that is timed */
    work *held;   /* on the set that waits */
    rg_set *gate; /* the timed set's ranks and the late one */
    bool is_late;
    rg_req *req; /* held's */
} late;

#define LATE_TRIALS 2

/* The two trials, of which the second is held against the first; at is where
 * they stand in their row. */
void late_trials(late *l, const char *const *names, int at, trial *trials);

#endif
