/* `regroup agent`: this process becomes the supervisor of this host's agent,
 * for a job that is known by its etcd and its name. */
#include "elastic/cli/agent_cmd.h"

#include "elastic/cli/launch.h"
#include "elastic/cli/rundir.h"
#include "sdk/base/fail.h"

static rg_status check_flags(const rg__settings *s)
{
    if (s->etcd == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "an agent needs the etcd of its job; give its "
                        "endpoints with --etcd, or use `regroup run`");
    if (s->job == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "an agent needs the name of its job; give it with "
                        "--job, the same on every host");
    return RG_OK;
}

static rg_status prepare(rg__launch *launch, rg__rundir *dir,
                         const rg__cli *cli, const rg__agent_start *start)
{
    char base[PATH_MAX];
    rg_status st = check_flags(&cli->settings);
    if (st == RG_OK)
        st = rg__launch_prepare(launch, cli, RG__REMOTE_NONE);
    if (st == RG_OK)
        st = rg__rundir_base(cli->settings.run_dir, base);
    if (st == RG_OK)
        st = rg__rundir_enter(dir, base, launch->job, launch->host, false);
    if (st == RG_OK && start->log_in != NULL)
        st = start->log_in(start->arg, launch, dir);
    if (st == RG_OK)
        st = rg__launch_check_store(launch, &cli->settings,
                                    cli->settings.user.start_timeout_ms);
    return st;
}

int rg__agent_here(rg__cli *cli, const rg__agent_start *start)
{
    rg__launch launch = {0};
    rg__rundir dir = {.job_lock = -1, .host_lock = -1};
    int code;
    rg__supervisor_calm();
    rg_status st = prepare(&launch, &dir, cli, start);
    rg__agent_params params = rg__launch_params(&launch, cli, &dir);
    params.is_launched = start->is_launched;
    if (st == RG_OK) {
        rg__job_record record;
        rg__launch_record(&params, &record);
        st = rg__rundir_record(&dir, &record);
    }
    code = st == RG_OK
               ? rg__supervisor_run(&params, rg__agent_run, start->hooks)
               : rg__cli_fail(st);
    rg__rundir_leave(&dir);
    return code;
}

int rg__cmd_agent(rg__cli *cli)
{
    const rg__agent_start by_hand = {0};
    return rg__agent_here(cli, &by_hand);
}
