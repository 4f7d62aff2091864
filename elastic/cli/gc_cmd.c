/* `regroup gc`: removes what dead jobs left: run directories and files of
 * launches here, and keys in an etcd that is named. */
#include <stdio.h>
#include <string.h>

#include "elastic/agent/mpirun/mpirun.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/gc_etcd.h"
#include "elastic/cli/launch.h"
#include "elastic/cli/rundir.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

typedef struct sweep {
    bool is_dry;
    int removed, left;
} sweep;

static void on_directory(void *arg, const char *path, bool has_gone)
{
    sweep *s = arg;
    if (!has_gone) {
        rg__say(
            "%s is left, since something in it is not Regroup's; look at it",
            path);
        s->left++;
        return;
    }
    printf("%s %s: %s\n", s->is_dry ? "would remove" : "removed", path,
           strstr(path, "/" RG__EVENT_LOG_FILE) != NULL
               ? "the events of a job that has ended"
               : "the job's processes are gone");
    s->removed++;
}

static rg_status sweep_directories(const rg__cli *cli, sweep *s)
{
    char base[PATH_MAX];
    const rg_status st = rg__rundir_base(cli->settings.run_dir, base);
    return st == RG_OK ? rg__rundir_sweep(base, s->is_dry, on_directory, s)
                       : st;
}

static rg_status sweep_etcd(const rg__cli *cli, rg__gc_counts *counts)
{
    rg__launch launch = {0};
    const rg_status st = rg__launch_reach(&launch, &cli->settings);
    if (st != RG_OK)
        return st;
    const rg__etcd_params params = rg__launch_etcd(&launch, &cli->settings);
    return rg__gc_etcd(&params, cli->settings.older_than_ms, cli->dry_run,
                       counts);
}

int rg__cmd_gc(rg__cli *cli)
{
    sweep s = {.is_dry = cli->dry_run};
    rg__gc_counts counts = {0};
    rg_status st =
        cli->argc == 0
            ? sweep_directories(cli, &s)
            : rg__fail(RG_ERR_INVALID, "`regroup gc` takes flags only, not %s",
                       cli->argv[0]);
    if (st == RG_OK)
        rg__scratch_sweep(s.is_dry, on_directory, &s);
    if (st == RG_OK && cli->settings.etcd != NULL)
        st = sweep_etcd(cli, &counts);
    if (st != RG_OK)
        return rg__cli_fail(st);
    if (s.removed + s.left + counts.removed + counts.kept == 0)
        printf("nothing to remove\n");
    return 0;
}
