/* `regroup run`: an agent for this host, and for a job without an etcd of its
 * own a private one, both children of this process, which only waits.
 *
 * The agent has a process group of its own: Ctrl-C at a terminal reaches it
 * once, by way of us. An etcd that ends is started again. If we die, the kernel
 * tells it to stop the job; if it dies, its workers become our children
 * (PR_SET_CHILD_SUBREAPER) and end by themselves after --agent-grace, which is
 * waited for. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/cli/cli.h"
#include "elastic/cli/invite.h"
#include "elastic/cli/launch.h"
#include "elastic/cli/rundir.h"
#include "elastic/cli/store.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define LATE_MS 3000 /* beyond the grace, for workers without an agent */

typedef struct job_run {
    rg__launch launch;
    rg__rundir dir;
    rg__private_etcd etcd;
    sigset_t waited, before; /* signals blocked here; the mask before */
    pid_t agent;             /* 0: it has ended */
    int agent_status;
} job_run;

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

/* nohup and its like stay respected. */
static bool is_ignored(int signum)
{
    struct sigaction now;
    return sigaction(signum, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void block_signals(job_run *run)
{
    signal(SIGCHLD, SIG_DFL); /* ignored, children would reap themselves */
    sigemptyset(&run->waited);
    sigaddset(&run->waited, SIGCHLD);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        if (!is_ignored(forwarded[i]))
            sigaddset(&run->waited, forwarded[i]);
    sigprocmask(SIG_BLOCK, &run->waited, &run->before);
}

/* ------------------------------------------------------------------- agent */

/* The forwarded signals stay blocked until the agent takes them from a
 * signalfd: one that comes first is not lost and doesn't kill it. */
static void become_agent(const rg__agent_params *params, pid_t parent)
{
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    sigprocmask(SIG_UNBLOCK, &children, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        exit(RG__EXIT_SYSTEM);
    exit(rg__agent_run(params));
}

static rg_status start_agent(job_run *run, const rg__agent_params *params)
{
    const pid_t parent = getpid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        become_agent(params, parent);
    if (pid < 0)
        return rg__fail(RG_ERR_SYSTEM, "no process for the agent: %s",
                        strerror(errno));
    setpgid(pid, pid); /* in both: whoever comes first */
    run->agent = pid;
    return RG_OK;
}

/* ----------------------------------------------------------------- waiting */

/* Take every child that has ended; false when none is left. */
static bool reap(job_run *run)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == run->agent) {
            run->agent = 0;
            run->agent_status = status;
        } else if (pid == run->etcd.pid) {
            run->etcd.pid = 0;
            if (run->agent != 0)
                rg__private_etcd_ended(&run->etcd, status);
        }
    }
    return pid == 0;
}

/* The next signal, or none within the time; -1: wait for ever. */
static int wait_signal(const job_run *run, int64_t ms)
{
    const struct timespec most = {.tv_sec = ms / 1000,
                                  .tv_nsec = ms % 1000 * (long)RG__MS};
    return ms < 0 ? sigwaitinfo(&run->waited, NULL)
                  : sigtimedwait(&run->waited, NULL, &most);
}

static void wait_agent(job_run *run)
{
    while (reap(run), run->agent != 0) {
        const int got = wait_signal(run, rg__private_etcd_keep(&run->etcd));
        if (got > 0 && got != SIGCHLD)
            kill(run->agent, got);
    }
}

/* Without their agent the workers are our children, and etcd is gone. */
static void wait_workers(job_run *run, uint64_t limit_ms)
{
    const uint64_t deadline = rg__now_ns() + limit_ms * RG__MS;
    while (reap(run)) {
        const uint64_t now = rg__now_ns();
        if (now >= deadline) {
            rg__log(RG__WARN, "cli",
                    "processes of job %s still run, longer than --agent-grace "
                    "allows; look for them with ps",
                    run->launch.job);
            return;
        }
        wait_signal(run, (int64_t)((deadline - now) / RG__MS) + 1);
    }
}

static int end_of_agent(job_run *run, const rg__settings *s)
{
    if (WIFEXITED(run->agent_status))
        return WEXITSTATUS(run->agent_status);
    const int signal = WTERMSIG(run->agent_status);
    fprintf(stderr,
            "regroup: the agent of job %s was killed by signal %d; its workers "
            "end by themselves within %llu ms (--agent-grace)\n",
            run->launch.job, signal, (unsigned long long)s->grace_ms);
    rg__private_etcd_stop(&run->etcd);
    wait_workers(run, s->grace_ms + LATE_MS);
    return 128 + signal;
}

/* ------------------------------------------------------------------ command */

/* A signal that came before there was an agent to take it. */
static int pending_signal(void)
{
    sigset_t pending;
    sigpending(&pending);
    for (size_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++)
        if (sigismember(&pending, forwarded[i]))
            return forwarded[i];
    return 0;
}

static rg_status prepare(job_run *run, const rg__cli *cli)
{
    char base[PATH_MAX];
    const rg__settings *s = &cli->settings;
    rg_status st = rg__launch_prepare(&run->launch, cli);
    if (st == RG_OK)
        st = rg__rundir_base(s->run_dir, base);
    if (st == RG_OK)
        st = rg__rundir_enter(&run->dir, base, run->launch.job,
                              run->launch.host, true);
    if (st != RG_OK)
        return st;
    if (s->etcd == NULL)
        return rg__private_etcd_start(&run->etcd, s->etcd_bin, run->dir.path,
                                      s->etcd_listen);
    return rg__launch_check_store(&run->launch, s);
}

static rg_status begin(job_run *run, const rg__cli *cli)
{
    rg__agent_params params = rg__launch_params(&run->launch, cli, &run->dir);
    params.creates_job = true;
    if (cli->settings.etcd == NULL) {
        params.endpoints = run->etcd.endpoint;
        params.user = run->etcd.user;
        params.password = run->etcd.password;
    }
    rg__job_record record;
    rg__launch_record(&params, &record);
    rg_status st = rg__rundir_record(&run->dir, &record);
    if (st == RG_OK && cli->settings.etcd_listen != NULL)
        st = rg__invite(&run->etcd, &run->launch, cli);
    return st == RG_OK ? start_agent(run, &params) : st;
}

int rg__cmd_run(rg__cli *cli)
{
    job_run run = {.dir = {.job_lock = -1, .host_lock = -1}};
    int code;
    block_signals(&run);
    rg_status st = prepare(&run, cli);
    const int signal = pending_signal();
    if (signal == 0 && st == RG_OK)
        st = begin(&run, cli);
    if (signal != 0)
        code = 128 + signal;
    else if (st != RG_OK)
        code = rg__cli_fail(st);
    else {
        wait_agent(&run);
        code = end_of_agent(&run, &cli->settings);
    }
    rg__private_etcd_stop(&run.etcd);
    rg__rundir_leave(&run.dir);
    sigprocmask(SIG_SETMASK, &run.before, NULL);
    return code;
}
