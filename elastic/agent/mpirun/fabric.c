/* Hardware that this host lacks. Without a fabric or an accelerator, an MPI
 * spends more time looking for these, and listing devices, than on the rest of
 * its start. */
#include "elastic/agent/mpirun/mpirun_parts.h"

#include "elastic/agent/mpirun/flavour.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct device {
    const char *in, *begins;
} device;

/* InfiniBand, RoCE, EFA, Omni-Path and usNIC; Slingshot; Aries; BXI. */
static const device fabrics[] = {{"/sys/class/infiniband", ""},
                                 {"/sys/class/cxi", ""},
                                 {"/sys/class/gni", ""},
                                 {"/sys/class/bxi", ""},
                                 {NULL, NULL}};

/* The display of a server's management processor has no renderD. */
static const device accelerators[] = {{"/dev", "nvidia"},
                                      {"/dev", "kfd"},
                                      {"/dev/dri", "renderD"},
                                      {"/dev/accel", ""},
                                      {NULL, NULL}};

static bool has(const device *one)
{
    bool has = false;
    DIR *in = opendir(one->in);
    for (const struct dirent *at;
         !has && in != NULL && (at = readdir(in)) != NULL;)
        has = at->d_name[0] != '.' &&
              strncmp(at->d_name, one->begins, strlen(one->begins)) == 0;
    if (in != NULL)
        closedir(in);
    return has;
}

static bool has_any(const device *of)
{
    for (; of->in != NULL; of++)
        if (has(of))
            return true;
    return false;
}

/* A setting of the user's stays, and so does a flag of --mpirun. Of hwloc's,
 * ranks have what a flavour sets, and else see all devices (rank_main.c). */
void rg__fabric_set_variables(const rg__agent *a)
{
    const rg__flavour *mpi = a->params->flavour;
    if (has_any(fabrics))
        return;
    if (!has_any(accelerators))
        rg__command_set_all(mpi->no_device, false);
    rg__command_set_all(mpi->no_fabric, false);
    setenv(RG__ENV_HWLOC, RG__HWLOC_NO_DEVICES, 0);
}
