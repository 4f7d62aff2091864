/* The library of an MPI (libregroup_mpi-*), loaded if the program was not
 * linked with it, or the linker dropped it. It is the one for the MPI that is
 * already mapped, else for the MPI that the launcher's variables show, and lies
 * beside this library. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/worker/worker.h"
#include "sdk/base/log.h"

typedef struct flavour {
    const char *name, *library, *variable;
} flavour;

static const flavour flavours[] = {
    {"openmpi", "libmpi.so.40", "OMPI_COMM_WORLD_SIZE"},
    {"mpich", "libmpich.so.12", "PMI_SIZE"},
};

enum { FLAVOURS = sizeof flavours / sizeof *flavours };

static bool is_mapped(const char *library)
{
    void *found = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
    if (found != NULL)
        dlclose(found);
    return found != NULL;
}

/* NULL: unknown. */
static const char *find_flavour(void)
{
    for (int i = 0; i < FLAVOURS; i++)
        if (is_mapped(flavours[i].library))
            return flavours[i].name;
    for (int i = 0; i < FLAVOURS; i++)
        if (getenv(flavours[i].variable) != NULL)
            return flavours[i].name;
    return NULL;
}

static void load(const char *name)
{
    static const char here;
    Dl_info info;
    char path[PATH_MAX];
    const char *end = NULL;
    if (dladdr(&here, &info) != 0)
        end = strrchr(info.dli_fname, '/');
    const int dir = end == NULL ? 0 : (int)(end - info.dli_fname + 1);
    snprintf(path, sizeof path, "%.*slibregroup_mpi-%s.so.%d", dir,
             dir == 0 ? "" : info.dli_fname, name, atoi(RG_VERSION));
    if (dlopen(path, RTLD_NOW | RTLD_GLOBAL) == NULL)
        rg__log(RG__INFO, "worker", "no library of that MPI: %s", dlerror());
    else
        rg__log(RG__DEBUG, "worker", "loaded %s", path);
}

void rg__adapter_load(void)
{
    const char *name = find_flavour();
    if (name != NULL)
        load(name);
}
