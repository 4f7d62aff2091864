/* Inside the mpi transport: a comm is a communicator of its own, and an
 * operation is one nonblocking collective on it, or several in a row.
 *
 * MPI is called under the engine's lock, by the threads that may (world.c), and
 * in the functions of regroup_mpi.h. Only creating a communicator waits for
 * peers, which have just agreed to create it. */
#ifndef RG_MPI_MPI_PARTS_H
#define RG_MPI_MPI_PARTS_H

#include "regroup/regroup_mpi.h"
#include "sdk/transport/launcher.h"

#define RG__MPI_TAGS 32767 /* every MPI has tags up to this */

typedef enum rg__check_mode {
    CHECK_OFF,
    CHECK_LATE,
    CHECK_EACH
} rg__check_mode;

/* ------------------------------------------------------------------ world.c */

/* The slots of rg__launcher. */
bool rg__mpi_is_here(void);
rg_status rg__mpi_attach(rg__launched *mine_p,
                         void (*ended)(void *arg, const char *why), void *arg);
rg_status rg__mpi_gather(const void *mine, size_t bytes, void *all);
void rg__mpi_detach(void);

/* The world that rg_init has attached to, or MPI_COMM_NULL; Regroup's own. */
MPI_Comm rg__mpi_world(void);
int rg__mpi_world_rank(void);

/* Set the communicator for the next attach; MPI_COMM_NULL: the default. */
void rg__mpi_hand_over(MPI_Comm comm);
/* Under an agent: the world from now on; the former communicator stays. */
rg_status rg__mpi_take_world(MPI_Comm comm);
/* Set the name of a process set for the next attach; borrowed; NULL: none. */
void rg__mpi_hand_over_pset(const char *pset);

/* May the calling thread call MPI? May the Regroup thread? */
bool rg__mpi_may_call(void);
bool rg__mpi_is_multiple(void);
/* Do Regroup threads call MPI on all ranks? The same on all of them. */
bool rg__mpi_are_multiple(void);

/* Is MPI initialised and not finalised, or the world a session's? */
bool rg__mpi_is_up(void);

/* ERR_REFUSED: a launcher has started several tasks, but MPI, with `from` as
 * its world, sees only this one. */
rg_status rg__mpi_refuse_other(MPI_Comm from);

rg__check_mode rg__mpi_check(void);

/* Make a communicator of n world ranks in that order. Collective over them. */
rg_status rg__mpi_create(const int *ranks, int n, uint32_t id,
                         MPI_Comm *comm_p);

/* Give back a communicator of n ranks of the world; NULL: of all. */
void rg__mpi_free(MPI_Comm *comm, const int *ranks, int n);

/* The communicator becomes the program's: it gets the error handler of the one
 * that the world was made from. */
void rg__mpi_lend(MPI_Comm comm);

/* The result of an MPI call: RG_OK, or the sentence. */
rg_status rg__mpi_status(const char *call, int code);

/* --------------------------------------------------------------- transport */

extern const rg__transport rg__transport_mpi;

#endif
