/* The launcher that was offered: one per process. */
#include "sdk/transport/launcher.h"

#include <string.h>

#include "sdk/base/fail.h"

static _Atomic(const rg__launcher *) offered;

rg_status rg__launcher_offer(const rg__launcher *launcher)
{
    if (launcher->size != sizeof *launcher ||
        strcmp(launcher->version, RG_VERSION) != 0)
        return rg__fail(RG_ERR_REFUSED,
                        "the %s library was built for Regroup %s, and this is "
                        "%s; install both from one build",
                        launcher->transport->name, launcher->version,
                        RG_VERSION);
    atomic_store(&offered, launcher);
    return RG_OK;
}

const rg__launcher *rg__launcher_get(void)
{
    return atomic_load(&offered);
}
