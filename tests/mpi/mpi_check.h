/* Worlds under mpirun: begin, and sets of every shape. */
#ifndef TESTS_MPI_CHECK_H
#define TESTS_MPI_CHECK_H

#include "regroup/regroup_mpi.h"
#include "tests/check.h"

#define MEMBERS_MAX 8

typedef struct shape {
    const char *name;
    int n, rank[MEMBERS_MAX];
} shape;

/* The shapes that a world of that size has: at most SHAPES_MAX. */
#define SHAPES_MAX 8
int shapes_of(int size, shape *shapes);

/* Elements of any type as numbers; F16 and BF16 are rounded to nearest even. */
void put(rg_type type, void *data, uint64_t i, double value);
double get(rg_type type, const void *data, uint64_t i);

/* What element i of a rank is: small, so that sums and products are exact. */
double element_of(int rank, uint64_t i);

/* The op over n numbers as the type computes it. */
double computed(rg_type type, rg_op op, const double *x, int n);

extern const char *const type_names[11];
extern const char *const op_names[11];

#endif
