/* `regroup jobs` and `stop`: which jobs run here, and the end of one. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/document.h"
#include "elastic/cli/rundir.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* -------------------------------------------------------------------- jobs */

static int print_jobs_json(const rg__job_record *jobs, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:i, s:s, s:s, s:s}", "job", jobs[i].job,
                      "host", jobs[i].host, "pid", (int)jobs[i].pid, "program",
                      jobs[i].program, "started", jobs[i].started, "run_dir",
                      jobs[i].path));
    const int failed = json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    return failed;
}

static void print_jobs(const rg__job_record *jobs, size_t n)
{
    if (n == 0) {
        printf("no job runs here\n");
        return;
    }
    printf("%-24s %9s %-20s %s\n", "job", "pid", "started", "program");
    for (size_t i = 0; i < n; i++)
        printf("%-24s %9d %-20s %s\n", jobs[i].job, (int)jobs[i].pid,
               jobs[i].started, jobs[i].program);
}

int rg__cmd_jobs(rg__cli *cli)
{
    char base[PATH_MAX];
    rg__job_record *jobs = NULL;
    size_t n = 0;
    rg_status st = cli->argc == 0
                       ? rg__rundir_base(cli->settings.run_dir, base)
                       : rg__fail(RG_ERR_INVALID, "`regroup jobs` takes no %s",
                                  cli->argv[0]);
    if (st == RG_OK)
        st = rg__jobs_list(base, &jobs, &n);
    if (st != RG_OK)
        return rg__cli_fail(st);
    if (cli->json)
        print_jobs_json(jobs, n);
    else
        print_jobs(jobs, n);
    free(jobs);
    return 0;
}

/* -------------------------------------------------------------------- stop */

int rg__cmd_stop(rg__cli *cli)
{
    rg__job_record job;
    rg_status st = rg__document_job(cli, 0, &job);
    if (st == RG_OK)
        st = rg__ask_stop(&job, cli->settings.timeout_ms);
    if (st == RG_OK) {
        printf("job %s has stopped\n", job.job);
        return 0;
    }
    if (st != RG_IN_PROGRESS)
        return rg__cli_fail(st);
    rg__say(
        "job %s was asked to stop and still runs after %llu ms; wait longer "
        "with --timeout, or end process %d",
        job.job, (unsigned long long)cli->settings.timeout_ms, (int)job.pid);
    return 1;
}
