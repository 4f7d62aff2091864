/* With which MPI is a program linked? */
#ifndef RG_ELASTIC_ELF_H
#define RG_ELASTIC_ELF_H

#include <stdbool.h>

typedef enum rg__mpi_kind {
    RG__MPI_UNKNOWN, /* none is seen: a script, or a program that loads one */
    RG__MPI_OPEN,    /* Open MPI 4 or 5 */
    RG__MPI_MPICH,   /* or what shares its ABI */
    RG__MPI_MIXED    /* two of them */
} rg__mpi_kind;

/* By the libraries that its file names as needed; path: as it was found. */
rg__mpi_kind rg__elf_mpi(const char *path);

#endif
