/* A launcher other than Regroup's agent: it has started the tasks of a static
 * world, and lets them find each other. libregroup knows none itself;
 * libregroup_mpi offers MPI as soon as it is loaded.
 *
 * Threads:   offer before rg_init; the slots are called by the threads that
 *            call rg_init and rg_finalize, one at a time.
 * Ownership: the offered launcher is borrowed forever. */
#ifndef RG_LAUNCHER_H
#define RG_LAUNCHER_H

#include "sdk/base/inner.h"
#include "sdk/transport/transport.h"

/* This task among those that are attached. */
typedef struct rg__launched {
    int rank, size;
    int host_leader; /* the lowest rank on the same host */
} rg__launched;

typedef struct rg__launcher {
    size_t size;         /* of this struct, as the launcher was compiled */
    const char *version; /* RG_VERSION, likewise */
    const rg__transport *transport;

    /* Has it started this process, or was it given a comm or set? Local. */
    bool (*is_here)(void);

    /* Attach to the launcher's world. Collective over all tasks. ended is
     * called once, on a thread of the program, when the program itself ends
     * that world before detach does: it closes the comms. */
    rg_status (*attach)(rg__launched *mine_p,
                        void (*ended)(void *arg, const char *why), void *arg);

    /* Report each process of the world here that has ended since attach
     * without rg_finalize, on a launcher's thread. NULL: no reports after
     * this returns. */
    void (*watch)(void (*lost)(void *arg, int rank), void *arg);

    /* all receives size times bytes, by rank. Collective. */
    rg_status (*gather)(const void *mine, size_t bytes, void *all);

    /* Give back what attach made, once every comm is closed; also after an
     * attach that failed. Local, unless attach began the launcher's world. */
    void (*detach)(void);

    /* Under an agent, for ranks that go on in place (--mpi=ulfm): make the
     * launcher's part of a world of n ranks, by their ranks at the launch, out
     * of what is left of the one before. *is_made_p: it has exactly these
     * processes in that order, and all of them know; else they call it again,
     * with what they know by then. Collective over all processes that live. */
    rg_status (*mend)(const int *ranks, int n, bool *is_made_p);
} rg__launcher;

/* ERR_REFUSED: it was built for another version of the library. */
RG_INNER rg_status rg__launcher_offer(const rg__launcher *launcher);

/* The launcher that was offered, or NULL. */
const rg__launcher *rg__launcher_get(void);

#endif
