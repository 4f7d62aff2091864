/* Once it is loaded, the library offers MPI as a launcher. */
#include "sdk/base/log.h"
#include "sdk/transport/mpi/mend.h"
#include "sdk/transport/mpi/mpi_parts.h"
#include "sdk/transport/mpi/peer_watch.h"

static const rg__launcher launcher = {.size = sizeof(rg__launcher),
                                      .version = RG_VERSION,
                                      .transport = &rg__transport_mpi,
                                      .is_here = rg__mpi_is_here,
                                      .attach = rg__mpi_attach,
                                      .watch = rg__watch_tell,
                                      .gather = rg__mpi_gather,
                                      .detach = rg__mpi_detach,
                                      .mend = rg__mpi_mend};

__attribute__((constructor)) static void offer(void)
{
    if (rg__launcher_offer(&launcher) != RG_OK)
        rg__log(RG__ERROR, "mpi", "%s", rg_last_error());
}
