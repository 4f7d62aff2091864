/* The other hosts of `regroup run`, from settings to a launcher. Without -H,
 * --hostfile and --host-discovery-script these calls do nothing. */
#ifndef RG_ELASTIC_REMOTES_H
#define RG_ELASTIC_REMOTES_H

#include <limits.h>

#include "elastic/cli/cli.h"
#include "elastic/launch/host_launcher.h"
#include "sdk/base/wire.h"

typedef struct rg__remotes {
    bool has_any;
    rg__host_list hosts;
    const char *rsh;  /* borrowed */
    rg__address mine; /* where they reach a private etcd */
    char program[PATH_MAX], own_program[PATH_MAX];
    rg__letter letter;
    rg__launcher_params params;
    rg__launcher *launcher; /* NULL: not yet */
} rg__remotes;

/* Lists and -x. ERR_INVALID. Free it in any case. */
rg_status rg__remotes_read(rg__remotes *remotes, const rg__cli *cli);
/* As rg__launch_prepare takes it. */
int rg__remotes_slots(const rg__remotes *remotes);
/* Where a private etcd is to listen; NULL: nowhere. */
const char *rg__remotes_listen(const rg__remotes *remotes);
/* Now that all is known, prepare what the hosts are told and how they are
 * started. Turns params into those of an agent that launches. */
rg_status rg__remotes_prepare(rg__remotes *remotes, const rg__cli *cli,
                              rg__agent_params *params);
/* Called while rg__remotes_finish waits (host_launcher.h); before prepare. */
void rg__remotes_on_wait(rg__remotes *remotes, const rg__launcher_wait *wait);
void rg__remotes_free(rg__remotes *remotes);

/* For the supervisor (supervisor.h). */
int rg__remotes_turn(rg__remotes *remotes);
void rg__remotes_ended(rg__remotes *remotes, pid_t pid, int status);
void rg__remotes_sizes(rg__remotes *remotes, int min, int max, bool has_world);
bool rg__remotes_is_over(const rg__remotes *remotes, int *code_p,
                         const char **why_p);
int rg__remotes_finish(rg__remotes *remotes, int code);

#endif
