/* Trials by turns: in each round every trial of a row runs once, the first of
 * them another one than in the round before, so that what disturbs the machine
 * meets all alike. Before a trial every rank rewrites its buffers and a barrier
 * takes the skew away; when all are through every element of the result is
 * compared. The time of a trial is the maximum over the ranks.
 *
 * Threads: one. Ownership: what a trial points to is borrowed. */
#ifndef TESTS_BENCH_COLLECTIVES_MEASURE_H
#define TESTS_BENCH_COLLECTIVES_MEASURE_H

#include "tests/bench/collectives/peer.h"
#include "tests/bench/collectives/plan.h"

typedef struct bench {
    const plan *plan;
    rg_ctx *ctx;
    rg__peer *world; /* beside the world; NULL: no MPI */
    const char *mpi; /* its name */
    uint64_t round;  /* rises with each trial of a round */
    uint64_t wrong;  /* in all rows */
    double busbw;    /* of all rows, added up */
    int rows;
} bench;

typedef struct figures {
    double p10, p50; /* us */
    int64_t wrong;
    int times;
} figures;

#define BASES_MAX 2

typedef struct trial {
    const char *name; /* what the table calls it */
    bool by_mpi;
    void (*run)(const struct trial *t);    /* what is timed */
    void (*before)(const struct trial *t); /* behind the barrier; or NULL */
    void (*after)(const struct trial *t);  /* or NULL */
    work *const *works; /* of this rank; none: it waits meanwhile */
    int n;
    rg_set *line;         /* ranks that start together once the others sleep;
                      NULL: no rank is left out */
    long quiet_ns;        /* how long that takes */
    void *arg;            /* of before and after */
    int moves;            /* operations in all that are in its time */
    int beside;           /* the trial of MPI, or -1 */
    int bases[BASES_MAX]; /* trials whose times, added up, this is held against;
                             -1 behind the last */
    figures got;
} trial;

/* Ranks in a barrier are asleep by then. */
#define QUIET_NS 200000

/* One operation after another, and all at once; of Regroup and of MPI. */
void run_in_turn(const trial *t);
void run_together(const trial *t);
void run_mpi_in_turn(const trial *t);
void run_mpi_together(const trial *t);

/* Fill in what the trials got; the same on all ranks. Collective. */
void measure(bench *b, trial *trials, int n);

/* End the program unless st is RG_OK. */
void need(rg_status st, const char *what);

#endif
