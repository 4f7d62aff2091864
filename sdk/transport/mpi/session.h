/* An MPI session of Regroup's own: a world from a named process set, without
 * MPI_Init. Its functions are looked up, since the library for Open MPI is
 * built with 4.1, which has none, and serves 5 as well.
 *
 * Threads: those that may attach and detach (../launcher.h). */
#ifndef RG_MPI_SESSION_H
#define RG_MPI_SESSION_H

#include "sdk/transport/mpi/mpi_parts.h"

/* Local. ERR_UNSUPPORTED: this MPI has no sessions; ERR_INVALID: it knows no
 * such set, or the one session of this process is over. */
rg_status rg__session_open(const char *pset);
/* Make a communicator of the set's processes, in its order; also returns the
 * thread level. The caller frees it before close. Collective. */
rg_status rg__session_meet(const char *pset, MPI_Comm *comm_p, int *level_p);
/* True from attach to close. */
bool rg__session_has_world(void);
/* Does nothing without a session. */
void rg__session_close(void);

#endif
