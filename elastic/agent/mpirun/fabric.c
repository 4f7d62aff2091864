/* Hardware that this host lacks: without a fabric Open MPI spends more
 * time looking for one, and listing all devices, than on the rest of its
 * start. */
#include "elastic/agent/mpirun/mpirun_parts.h"

#include <dirent.h>
#include <stdlib.h>

/* InfiniBand, RoCE, EFA, Omni-Path and usNIC; Slingshot; Aries; BXI. */
static const char *const classes[] = {"/sys/class/infiniband", "/sys/class/cxi",
                                      "/sys/class/gni", "/sys/class/bxi"};

static bool has_entry(const char *path)
{
    bool has = false;
    DIR *in = opendir(path);
    for (const struct dirent *one;
         !has && in != NULL && (one = readdir(in)) != NULL;)
        has = one->d_name[0] != '.';
    if (in != NULL)
        closedir(in);
    return has;
}

static bool has_fabric(void)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (has_entry(classes[i]))
            return true;
    return false;
}

/* A setting of the user's stays, and so does a flag of --mpirun. Ranks see all
 * devices again (rank_cmd.c). */
void rg__fabric_set_variables(void)
{
    if (has_fabric())
        return;
    setenv("OMPI_MCA_pml", "^cm,ucx", 0);
    setenv(RG__ENV_HWLOC, RG__HWLOC_NO_DEVICES, 0);
}
