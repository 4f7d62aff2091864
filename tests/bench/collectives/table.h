/* The table, by rank 0: nccl-tests' columns, and what is beside them.
 * Threads: one. */
#ifndef TESTS_BENCH_COLLECTIVES_TABLE_H
#define TESTS_BENCH_COLLECTIVES_TABLE_H

#include "tests/bench/collectives/measure.h"

void table_begin(const bench *b);

/* A row for each trial of Regroup; w stands for trials that rank 0 has no work
 * in. memory: "user" or "alloc". */
void table_rows(bench *b, const work *w, const char *memory,
                const trial *trials, int n);

/* What was wrong, and the mean of the bus bandwidths. */
void table_end(const bench *b);

#endif
