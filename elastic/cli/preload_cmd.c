/* `regroup mpirun-preload`: what mpirun starts in place of an MPI program, to
 * run it with the interposer of its MPI preloaded. mpirun itself, and what else
 * it starts, are left alone. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/agent/mpirun/flavour.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/find_program.h"
#include "elastic/cli/which_mpi.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define PATH_BYTES (2 * PATH_MAX)

/* Beside the folder of this command, as built and as installed. */
static const char *const folders[] = {"../lib", "../" RG_LIBDIR};

static const char *find_ours(const char *program)
{
    const char *ours = rg__which_mpi_ours(program);
    const rg__flavour *here = rg__flavour_here();
    if (ours == NULL && here != NULL)
        return here->ours;
    return ours;
}

static rg_status find_library(const char *program, char *path)
{
    char self[PATH_MAX] = "";
    const char *ours = find_ours(program);
    if (ours == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "%s is linked with no MPI that Regroup knows, or with "
                        "two, and no mpirun has started it; write `mpirun -n N "
                        "regroup mpirun-preload %s`",
                        program, program);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return rg__fail(RG_ERR_SYSTEM, "/proc/self/exe can't be read: %s",
                        strerror(errno));
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, PATH_BYTES, "%s/%s/libregroup_interpose-%s.so", self,
                 folders[i], ours);
        if (access(path, R_OK) == 0)
            return RG_OK;
    }
    return rg__fail(RG_ERR_INVALID,
                    "there is no %s: Regroup was built or installed without "
                    "this MPI",
                    path);
}

/* In front of what is already preloaded. */
static void set_variables(const char *library, const char *names)
{
    char list[2 * PATH_BYTES];
    const char *before = getenv("LD_PRELOAD"); /* not ours: no setting */
    snprintf(list, sizeof list, "%s%s%s", library, before != NULL ? ":" : "",
             before != NULL ? before : "");
    setenv("LD_PRELOAD", list, 1);
    setenv("REGROUP_INTERPOSE", names != NULL ? names : "all", 1);
}

int rg__cmd_preload(rg__cli *cli)
{
    char program[PATH_MAX], library[PATH_BYTES];
    rg_status st = cli->argc > 0
                       ? rg__find_program(cli->argv[0], program, sizeof program)
                       : rg__fail(RG_ERR_INVALID,
                                  "there is no program to run; write `mpirun "
                                  "-n N regroup mpirun-preload PROGRAM`");
    if (st == RG_OK)
        st = find_library(program, library);
    if (st != RG_OK)
        return rg__cli_fail(st);
    set_variables(library, cli->settings.library.interpose);
    execv(program, cli->argv);
    rg__say("%s can't be run: %s", program, strerror(errno));
    return errno == ENOENT ? 127 : 126;
}
