/* A comm of the mpi transport, and how an operation goes on.
 *
 * An operation is a row of stages. A stage is called when everything that the
 * one before has posted is complete; it does a bounded piece of work, posts
 * what comes next, and says IN_PROGRESS, or how the operation ended. */
#ifndef RG_MPI_COMM_H
#define RG_MPI_COMM_H

#include "sdk/transport/mpi/inside.h"
#include "sdk/transport/native/frame.h"

typedef struct comm comm;
typedef rg_status (*stage_fn)(comm *c);

/* What each member brings where all are compared first. */
typedef struct brought {
    said_line line;
    int64_t value[4]; /* AGREE */
} brought;

struct comm {
    rg__comm base;
    MPI_Comm mpi;
    bool is_world;  /* mpi is the world's, and not this comm's to free */
    bool is_broken; /* MPI has failed on it */
    int rank, n;
    uint32_t id;

    rg__coll coll;
    stage_fn stage, next; /* next: behind a comparison */
    uint64_t at, part;    /* elements done, and in flight */

    MPI_Request request;
    brought mine, *all; /* all: n, owned */
};

/* data.c: the stages of a kind's own; they begin with at = 0. */
stage_fn rg__mpi_first_stage(const comm *c);

#endif
