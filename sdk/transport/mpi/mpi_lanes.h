/* Lanes of messages over MPI, to all ranks of a communicator. Threads: the
 * engine's lock is held, by a thread that may call MPI. */
#ifndef RG_MPI_LANES_H
#define RG_MPI_LANES_H

#include "sdk/transport/mpi/mpi_parts.h"
#include "sdk/transport/messages/messages.h"

typedef struct rg__mpi_lanes rg__mpi_lanes;

rg_status rg__mpi_lanes_open(MPI_Comm comm, int n, rg__mpi_lanes **lanes_p);
void rg__mpi_lanes_close(rg__mpi_lanes *lanes); /* NULL allowed */
rg__messages *rg__mpi_lanes_messages(const rg__mpi_lanes *lanes);

#endif
