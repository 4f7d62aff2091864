/* `regroup run`: an agent for this host, and for a job without an etcd of its
 * own a private one, both children of this process, which is the agent's
 * supervisor and starts an etcd that ends again. */
#include <signal.h>
#include <sys/wait.h>

#include "elastic/agent/supervisor/supervisor.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/goodbye.h"
#include "elastic/cli/invite.h"
#include "elastic/cli/launch.h"
#include "elastic/cli/remotes.h"
#include "elastic/cli/rundir.h"
#include "elastic/cli/store.h"

typedef struct job_run {
    rg__launch launch;
    rg__rundir dir;
    rg__private_etcd etcd;
    rg__remotes remotes;
    const rg__settings *settings;
    rg__snapshot found; /* by the newest look_for_hosts; owned */
    sigset_t before;    /* the mask of signals */
} job_run;

static void block_signals(job_run *run)
{
    sigset_t set;
    signal(SIGCHLD, SIG_DFL); /* ignored, children would reap themselves */
    rg__supervisor_signals(&set);
    sigprocmask(SIG_BLOCK, &set, &run->before);
}

/* -------------------------------------------------------- children of ours */

static void on_ended(void *arg, pid_t pid, int status)
{
    job_run *run = arg;
    if (pid != run->etcd.pid) {
        rg__remotes_ended(&run->remotes, pid, status);
        return;
    }
    run->etcd.pid = 0;
    rg__private_etcd_ended(&run->etcd, status);
}

static int keep_etcd(void *arg)
{
    job_run *run = arg;
    int status;
    if (run->etcd.pid != 0 &&
        waitpid(run->etcd.pid, &status, WNOHANG) == run->etcd.pid)
        on_ended(run, run->etcd.pid, status);
    return rg__private_etcd_keep(&run->etcd);
}

static bool look_for_hosts(void *arg)
{
    job_run *run = arg;
    const rg__etcd_params params =
        run->etcd.endpoint[0] != '\0'
            ? rg__private_etcd_params(&run->etcd)
            : rg__launch_etcd(&run->launch, run->settings);
    rg__snapshot_free(&run->found);
    return rg__places_read(&params, run->launch.job, &run->found) == RG_OK;
}

static rg__host_place place_of(void *arg, const char *host)
{
    const job_run *run = arg;
    return rg__place_of(&run->found, host);
}

static int on_turn(void *arg)
{
    job_run *run = arg;
    const int etcd_ms = rg__private_etcd_keep(&run->etcd);
    const int hosts_ms = rg__remotes_turn(&run->remotes);
    return etcd_ms < 0 || (hosts_ms >= 0 && hosts_ms < etcd_ms) ? hosts_ms
                                                                : etcd_ms;
}

static void on_sizes(void *arg, int min, int max, bool has_world)
{
    job_run *run = arg;
    rg__remotes_sizes(&run->remotes, min, max, has_world);
}

static bool on_look(void *arg, int *code_p, const char **why_p)
{
    const job_run *run = arg;
    return rg__remotes_is_over(&run->remotes, code_p, why_p);
}

/* ------------------------------------------------------------------ command */

static rg_status prepare(job_run *run, const rg__cli *cli)
{
    char base[PATH_MAX];
    const rg__settings *s = &cli->settings;
    rg_status st = rg__remotes_read(&run->remotes, cli);
    if (st == RG_OK)
        st = rg__launch_prepare(&run->launch, cli,
                                rg__remotes_slots(&run->remotes));
    if (st == RG_OK)
        st = rg__rundir_base(s->run_dir, base);
    if (st == RG_OK)
        st = rg__rundir_enter(&run->dir, base, run->launch.job,
                              run->launch.host, true);
    if (st != RG_OK)
        return st;
    if (s->etcd == NULL)
        return rg__private_etcd_start(&run->etcd, s->etcd_bin, run->dir.path,
                                      s->etcd_listen != NULL
                                          ? s->etcd_listen
                                          : rg__remotes_listen(&run->remotes));
    return rg__launch_check_store(&run->launch, s, 0);
}

/* The job's code, once it is over. */
static int run_job(job_run *run, const rg__cli *cli)
{
    const rg__supervisor_hooks hooks = {.ended = on_ended,
                                        .turn = on_turn,
                                        .sizes = on_sizes,
                                        .is_over = on_look,
                                        .arg = run};
    rg__agent_params params = rg__launch_params(&run->launch, cli, &run->dir);
    params.creates_job = true;
    if (cli->settings.etcd == NULL) {
        params.has_etcd = true;
        params.is_one_host = !run->etcd.is_open;
        params.etcd = rg__private_etcd_params(&run->etcd);
    }
    rg__job_record record;
    rg__launch_record(&params, &record);
    rg_status st = rg__rundir_record(&run->dir, &record);
    if (st == RG_OK && cli->settings.etcd_listen != NULL)
        st = rg__invite(&run->etcd, &run->launch, cli);
    const rg__launcher_wait wait = {.turn = keep_etcd,
                                    .look = look_for_hosts,
                                    .place = place_of,
                                    .arg = run};
    rg__remotes_on_wait(&run->remotes, &wait);
    if (st == RG_OK)
        st = rg__remotes_prepare(&run->remotes, cli, &params);
    if (st != RG_OK)
        return rg__cli_fail(st);
    int code = rg__supervisor_run(&params, rg__agent_run, &hooks);
    code = rg__remotes_finish(&run->remotes, code);
    if (run->etcd.is_open)
        rg__goodbye(&run->etcd, run->launch.job, run->launch.host);
    return code;
}

int rg__cmd_run(rg__cli *cli)
{
    job_run run = {.dir = {.job_lock = -1, .host_lock = -1}};
    int code;
    run.settings = &cli->settings;
    rg__supervisor_calm();
    block_signals(&run);
    const rg_status st = prepare(&run, cli);
    const int signal =
        rg__supervisor_pending(); /* before an agent could take it */
    if (signal != 0)
        code = 128 + signal;
    else
        code = st == RG_OK ? run_job(&run, cli) : rg__cli_fail(st);
    rg__remotes_free(&run.remotes);
    rg__snapshot_free(&run.found);
    rg__private_etcd_stop(&run.etcd);
    rg__rundir_leave(&run.dir);
    sigprocmask(SIG_SETMASK, &run.before, NULL);
    return code;
}
