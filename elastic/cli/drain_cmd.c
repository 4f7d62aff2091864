/* `regroup drain`: ask a host to leave a job, and wait until it has. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/document.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define LOOK_MS 200
#define LATE_MS 10000 /* beyond the deadline, for the host to be gone */

/* ------------------------------------------------------------------- asking */

static rg_status ask(const rg__job_record *job, const char *host,
                     uint64_t deadline_ms)
{
    char *text = NULL;
    json_t *answer = NULL;
    rg_status st = rg__ask_drain(job, host, deadline_ms, &text);
    if (st == RG_OK)
        st = rg__document_accept(text, &answer);
    json_decref(answer);
    return st;
}

/* ------------------------------------------------------------------ waiting */

static const json_t *find_host(const json_t *status, const char *name)
{
    size_t i;
    json_t *host;
    json_array_foreach(json_object_get(status, "hosts"), i,
                       host) if (strcmp(rg__document_text(host, "id"), name) ==
                                 0) return host;
    return NULL;
}

static int count_members(const json_t *host)
{
    size_t i;
    json_t *worker;
    int n = 0;
    json_array_foreach(json_object_get(host, "workers"), i, worker) n +=
        json_is_integer(json_object_get(worker, "rank"));
    return n;
}

/* A host that is not draining has come back, or never has been. */
static bool has_left(const json_t *host)
{
    return host == NULL || !rg__document_is(host, "draining") ||
           strcmp(rg__document_text(host, "state"), "absent") == 0 ||
           strcmp(rg__document_text(host, "state"), "left") == 0;
}

static void show_progress(const json_t *host, const char *name,
                          uint64_t since_ns)
{
    const double s = (double)(rg__now_ns() - since_ns) / 1e9;
    if (isatty(STDERR_FILENO))
        fprintf(
            stderr,
            "\r\033[Khost %s leaves: %d of its workers in the world, %.0f s",
            name, count_members(host), s);
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

/* true: it has left. When no agent answers and nothing of the job is left here,
 * the host that has left is this one. */
static bool look(const rg__job_record *job, const char *name, uint64_t since_ns)
{
    char *text = NULL;
    json_t *status = NULL;
    if (rg__ask_status(job, &text) != RG_OK)
        return !rg__rundir_is_alive(job->path);
    if (rg__document_read(text, &status) != RG_OK)
        return false;
    const json_t *host = find_host(status, name);
    const bool is_whole =
        strcmp(rg__document_text(status, "scope"), "job") == 0;
    const bool left = is_whole && has_left(host);
    if (!left)
        show_progress(host, name, since_ns);
    json_decref(status);
    return left;
}

static bool wait_until_left(const rg__job_record *job, const char *name,
                            uint64_t most_ms)
{
    const uint64_t began = rg__now_ns();
    bool left = false;
    while (!(left = look(job, name, began)) &&
           rg__now_ns() - began < most_ms * RG__MS)
        rg__sleep_ns(LOOK_MS * RG__MS);
    end_progress();
    return left;
}

/* ------------------------------------------------------------------ command */

int rg__cmd_drain(rg__cli *cli)
{
    rg__job_record job;
    const uint64_t deadline_ms = cli->settings.user.deadline_ms;
    if (cli->argc == 0)
        return rg__cli_fail(rg__fail(
            RG_ERR_INVALID, "no host was named; write it as in `regroup drain "
                            "h2`, `regroup status` lists them"));
    const char *host = cli->argv[0];
    rg_status st = rg__document_job(cli, 1, &job);
    if (st == RG_OK)
        st = ask(&job, host, deadline_ms);
    if (st != RG_OK)
        return rg__cli_fail(st);
    if (wait_until_left(&job, host, deadline_ms + LATE_MS)) {
        printf("host %s has left job %s\n", host, job.job);
        return 0;
    }
    rg__say("host %s was asked to leave job %s and has not left after %llu ms; "
            "`regroup status` shows what it is doing",
            host, job.job, (unsigned long long)(deadline_ms + LATE_MS));
    return 1;
}
