/* `regroup status`, `jobs` and `stop`: what is asked of jobs that run here. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/rundir.h"
#include "sdk/base/fail.h"

#define ANSWER_MS 5000

static rg_status fail_words(const rg__cli *cli)
{
    return rg__fail(RG_ERR_INVALID, "\"%s\" is one word too many",
                    cli->argv[1]);
}

static rg_status find_job(const rg__cli *cli, rg__job_record *job_p)
{
    char base[PATH_MAX];
    if (cli->argc > 1)
        return fail_words(cli);
    const rg_status st = rg__rundir_base(cli->settings.run_dir, base);
    if (st != RG_OK)
        return st;
    return rg__jobs_find(base, cli->argc == 1 ? cli->argv[0] : NULL, job_p);
}

/* ------------------------------------------------------------------ status */

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text != NULL ? text : "-";
}

static long long number_of(const json_t *json, const char *key)
{
    return (long long)json_number_value(json_object_get(json, key));
}

/* A number that may be null, as text. */
static void put_number(const json_t *json, const char *key, char text[24])
{
    const json_t *value = json_object_get(json, key);
    if (json_is_number(value))
        snprintf(text, 24, "%lld", (long long)json_number_value(value));
    else
        strcpy(text, "-");
}

/* Bytes in the largest unit that leaves a whole number before the point. */
static void put_bytes(long long bytes, char text[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double n = (double)bytes;
    int unit = 0;
    for (; n >= 1024 && unit < 4; unit++)
        n /= 1024;
    snprintf(text, 24, unit == 0 ? "%.0f %s" : "%.1f %s", n, units[unit]);
}

static void print_job(const json_t *status)
{
    char vault[24];
    const json_t *etcd = json_object_get(status, "etcd");
    put_bytes(number_of(status, "vault_bytes"), vault);
    printf("job %s: generation %lld %s, world %lld (min %lld, max %lld), "
           "leader %s, etcd %s, vault %s\n",
           text_of(status, "job"), number_of(status, "generation"),
           text_of(status, "phase"), number_of(status, "size"),
           number_of(status, "min"), number_of(status, "max"),
           text_of(status, "leader"), text_of(etcd, "state"), vault);
}

/* A worker outside of the world has no rank. */
static void print_worker(const json_t *host, const json_t *worker)
{
    char name[160], rank[24], step[24];
    snprintf(name, sizeof name, "%s.%lld", text_of(host, "id"),
             number_of(worker, "slot"));
    put_number(worker, "rank", rank);
    put_number(worker, "step", step);
    printf("%-20s %5s %9lld %12s  %s\n", name, rank, number_of(worker, "pid"),
           step, text_of(worker, "state"));
}

static void print_hosts(const json_t *status)
{
    size_t h, w;
    json_t *host, *worker;
    printf("\n%-20s %5s %9s %12s  %s\n", "worker", "rank", "pid", "step",
           "state");
    json_array_foreach(json_object_get(status, "hosts"), h, host)
        json_array_foreach(json_object_get(host, "workers"), w, worker)
            print_worker(host, worker);
}

static void print_changes(const json_t *status)
{
    size_t i;
    json_t *change;
    const json_t *changes = json_object_get(status, "changes");
    if (json_array_size(changes) == 0)
        return;
    printf("\n%10s %9s %6s %9s  %s\n", "generation", "world", "lost", "to step",
           "cause");
    json_array_foreach(changes, i, change)
    {
        char world[32], ms[32] = "-";
        const json_t *time = json_object_get(change, "fault_to_step_ms");
        snprintf(world, sizeof world, "%lld > %lld",
                 number_of(change, "from_size"), number_of(change, "to_size"));
        if (json_is_number(time))
            snprintf(ms, sizeof ms, "%.1f ms", json_number_value(time));
        printf("%10lld %9s %6lld %9s  %s\n", number_of(change, "generation"),
               world, number_of(change, "steps_lost"), ms,
               text_of(change, "cause"));
    }
}

static rg_status print_status(const char *text)
{
    json_error_t error;
    json_t *status = json_loads(text, 0, &error);
    if (status == NULL)
        return rg__fail(RG_ERR_SYSTEM,
                        "the agent's status document is no JSON: %s in line %d",
                        error.text, error.line);
    print_job(status);
    print_hosts(status);
    print_changes(status);
    json_decref(status);
    return RG_OK;
}

int rg__cmd_status(rg__cli *cli)
{
    rg__job_record job;
    char *text = NULL;
    rg_status st = find_job(cli, &job);
    if (st == RG_OK)
        st = rg__ask_status(&job, ANSWER_MS, &text);
    if (st == RG_OK && cli->json)
        printf("%s%s", text, text[strlen(text) - 1] == '\n' ? "" : "\n");
    else if (st == RG_OK)
        st = print_status(text);
    free(text);
    return st == RG_OK ? 0 : rg__cli_fail(st);
}

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
    rg_status st = find_job(cli, &job);
    if (st == RG_OK)
        st = rg__ask_stop(&job, cli->settings.timeout_ms);
    if (st == RG_OK) {
        printf("job %s has stopped\n", job.job);
        return 0;
    }
    if (st != RG_IN_PROGRESS)
        return rg__cli_fail(st);
    fprintf(stderr,
            "regroup: job %s was asked to stop and still runs after %llu ms; "
            "wait longer with --timeout, or end process %d\n",
            job.job, (unsigned long long)cli->settings.timeout_ms,
            (int)job.pid);
    return 1;
}
