/* This process becomes the supervisor of an agent: for `regroup agent`, and for
 * `regroup remote`, which sets more of how that is done. */
#ifndef RG_ELASTIC_AGENT_CMD_H
#define RG_ELASTIC_AGENT_CMD_H

#include "elastic/agent/supervisor/supervisor.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/launch.h"
#include "elastic/cli/rundir.h"

typedef struct rg__agent_start { /* any may be NULL */
    /* Called in the run directory: fill in the credentials for etcd. */
    rg_status (*log_in)(void *arg, rg__launch *launch, const rg__rundir *dir);
    const rg__supervisor_hooks *hooks;
    bool is_launched; /* by a launcher on another host */
    void *arg;
} rg__agent_start;

/* Returns the exit code. */
int rg__agent_here(rg__cli *cli, const rg__agent_start *start);

#endif
