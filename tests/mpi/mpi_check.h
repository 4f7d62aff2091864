/* Worlds under mpirun: begin, and sets of every shape. */
#ifndef TESTS_MPI_CHECK_H
#define TESTS_MPI_CHECK_H

#include "regroup/regroup_mpi.h"
#include "tests/check.h"
#include "tests/lib/elements.h"

#define MEMBERS_MAX 24

typedef struct shape {
    const char *name;
    int n, rank[MEMBERS_MAX];
} shape;

/* The shapes that a world of that size has: at most SHAPES_MAX. */
#define SHAPES_MAX 8
int shapes_of(int size, shape *shapes);

#endif
