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

static bool sets(const char *line, const char *name, size_t n)
{
    line += strspn(line, " \t");
    return strncmp(line, name, n) == 0 &&
           line[n + strspn(line + n, " \t")] == '=';
}

static bool is_in_file(const rg__flavour *mpi, const char *variable)
{
    const char *home = getenv("HOME"); /* not ours: no setting */
    char path[PATH_MAX], *line = NULL;
    size_t bytes = 0;
    bool is_in = false;
    if (mpi->file == NULL || home == NULL)
        return false;
    const char *name = variable + strlen(mpi->prefix);
    snprintf(path, sizeof path, "%s/%s", home, mpi->file);
    FILE *in = fopen(path, "re");
    while (in != NULL && !is_in && getline(&line, &bytes, in) > 0)
        is_in = sets(line, name, strcspn(name, "="));
    if (in != NULL)
        fclose(in);
    free(line);
    return is_in;
}

/* A variable would overrule what is in the file. */
static void set_no_fabric(const rg__flavour *mpi)
{
    for (const char *const *v = mpi->no_fabric; *v != NULL; v++) {
        const char *const one[] = {*v, NULL};
        if (!is_in_file(mpi, *v))
            rg__command_set_all(one, false);
    }
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
    set_no_fabric(mpi);
    setenv(RG__ENV_HWLOC, RG__HWLOC_NO_DEVICES, 0);
}
