/* A slot of rg__launcher: MPI's part of a world whose ranks go on in place. */
#ifndef RG_MPI_MEND_H
#define RG_MPI_MEND_H

#include "sdk/transport/mpi/mpi_parts.h"

/* See rg__launcher's mend. Called by a thread that may call MPI. */
rg_status rg__mpi_mend(const int *ranks, int n, bool *is_made_p);

/* The communicator is the program's from now on: if ranks go on in place, it is
 * revoked together with its world. */
rg_status rg__mend_note_lent(MPI_Comm comm);

#endif
