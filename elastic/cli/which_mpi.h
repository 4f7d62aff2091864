/* Under --mpi: which MPI does a program use, and which mpirun launches it? */
#ifndef RG_ELASTIC_WHICH_MPI_H
#define RG_ELASTIC_WHICH_MPI_H

#include <limits.h>
#include <stdbool.h>

#include "elastic/agent/mpirun/flavour.h"
#include "regroup/regroup.h"

typedef struct rg__which_mpi {
    const rg__flavour *flavour;
    char mpirun[2 * PATH_MAX]; /* its words */
} rg__which_mpi;

/* mpirun: as it was given; NULL: the one that belongs to the program's library,
 * or that of PATH for a program that shows none, such as a script.
 * ERR_INVALID: there is none, or it is of another MPI than the program. */
rg_status rg__which_mpi_find(const char *program, const char *mpirun,
                             rg__which_mpi *which);

/* Its MPI as our libraries name it: "openmpi", "mpich" or "abi"; NULL: the
 * program shows none, or two. */
const char *rg__which_mpi_ours(const char *program);

/* Does the program's own file name an MPI's library? */
bool rg__which_mpi_is_any(const char *program);

#endif
