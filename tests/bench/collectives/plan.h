/* What is to be measured: the options of bench_collectives.
 *
 * Threads: one. Ownership: strings are argv's. */
#ifndef TESTS_BENCH_COLLECTIVES_PLAN_H
#define TESTS_BENCH_COLLECTIVES_PLAN_H

#include "tests/bench/collectives/work.h"

#define SIZES_MAX 64

typedef enum layout { ONE, HALVES, HUNDRED, LATE, LAYOUTS } layout;

typedef struct plan {
    bool kinds[KINDS];
    layout layout;
    rg_type type;
    rg_op redop;
    int root;
    bool uneven;
    bool places[2];   /* out of place, in place */
    bool memories[2]; /* ordinary, rg_alloc */
    uint64_t sizes[SIZES_MAX];
    int n_sizes;
    int times;         /* measured rounds of a row; 0: as many as seconds has */
    int warmups;       /* rounds before those */
    double seconds;    /* of a row */
    const char *level; /* MPI's thread level; NULL: as rg_init has it */
    bool is_json;
} plan;

/* Read the options. 0: go on; else the exit code + 1, after --help or behind a
 * sentence about what is wrong. */
int plan_read(plan *p, int argc, char **argv);

/* What only the world's size tells: false, behind a sentence. */
bool plan_fits(const plan *p, int n);

uint64_t plan_most(const plan *p);

#endif
