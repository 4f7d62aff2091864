/* Which sets there are, and what is tried on them.
 *
 *   one      the world
 *   halves   two disjoint sets: each alone, then both at once
 *   hundred  a hundred overlapping sets of two and three ranks: one after
 *            another, and all at once
 *   late     a set, alone and while another one waits for its last rank;
 *            disjoint, and with members in common
 *
 * Threads: one. Collective over the world. */
#ifndef TESTS_BENCH_COLLECTIVES_LAYOUT_H
#define TESTS_BENCH_COLLECTIVES_LAYOUT_H

#include "tests/bench/collectives/measure.h"

/* Measure the plan's rows and print them. */
void layout_run(bench *b);

#endif
