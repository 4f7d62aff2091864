/* Calls the functions of MPI that may wait for others, one after another: the
 * test (of the same name) kills a rank at each of them.
 *
 * Covers: peer_watch.c world.c */
#include <unistd.h>

#include "tests/mpi/mpi_check.h"

/* MPI stays as it is where a peer is lost: the process leaves without it. */
static void leave(const char *what, rg_status st)
{
    printf("%s: %s\n", what, rg_status_name(st));
    fflush(NULL);
    if (st != RG_OK)
        _exit(3);
}

int main(void)
{
    rg_ctx *ctx = NULL;
    rg_set *set = NULL;
    MPI_Comm comm;
    leave("rg_init", rg_init(NULL, &ctx));
    leave("rg_set_create",
          rg_set_create(ctx, (const int[]){1, 0}, 2, NULL, &set));
    leave("rg_set_mpi_comm", rg_set_mpi_comm(set, &comm));
    leave("rg_set_destroy", rg_set_destroy(set));
    leave("rg_finalize", rg_finalize(ctx));
    _exit(0);
}
