/* From settings to what the agent is given: sizes, names, directories. */
#ifndef RG_ELASTIC_LAUNCH_H
#define RG_ELASTIC_LAUNCH_H

#include <limits.h>

#include "elastic/cli/cli.h"
#include "elastic/cli/rundir.h"
#include "elastic/cli/which_mpi.h"
#include "elastic/etcd/etcd.h"

typedef struct rg__launch {
    int slots, min, max;
    bool is_mpi, is_ulfm;
    rg__which_mpi mpi; /* under --mpi, where workers are started here */
    char program[PATH_MAX];
    char job[RG__NAME_MAX], host[RG__NAME_MAX];
    char history[PATH_MAX], output[PATH_MAX]; /* "": none */
    char checkpoint[PATH_MAX];                /* likewise */
    char user[128], password[256];            /* of etcd; "": none */
    char cacert[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
} rg__launch;

/* Check the settings and the program behind them, and make the directories.
 * remote_slots: workers are started on other hosts, which have so many (0: that
 * is not known), and look for program and directories themselves; NONE: here.
 * ERR_INVALID with a sentence for whatever can't work. */
#define RG__REMOTE_NONE (-1)
rg_status rg__launch_prepare(rg__launch *launch, const rg__cli *cli,
                             int remote_slots);

/* The part of rg__launch_prepare that concerns etcd. */
rg_status rg__launch_reach(rg__launch *launch, const rg__settings *settings);

/* The text, or NULL if it is empty. */
const char *rg__or_null(const char *text);
/* What a client of that etcd is given; borrows from both. */
rg__etcd_params rg__launch_etcd(const rg__launch *launch,
                                const rg__settings *settings);

/* Check that the etcd of --etcd answers and lets us in; one that takes
 * connections has late_ms, if that is more than the usual time. ERR_STORE. */
rg_status rg__launch_check_store(const rg__launch *launch,
                                 const rg__settings *settings,
                                 uint64_t late_ms);

/* What the agent is given; borrows from all three. */
rg__agent_params rg__launch_params(const rg__launch *launch, const rg__cli *cli,
                                   const rg__rundir *dir);

/* What job.json says. */
void rg__launch_record(const rg__agent_params *params, rg__job_record *record);

#endif
