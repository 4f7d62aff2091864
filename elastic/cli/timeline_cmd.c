/* `regroup timeline`: begin, end and merge timelines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/document.h"
#include "elastic/cli/timeline_merge.h"
#include "sdk/base/fail.h"

/* The agent has another working directory, so the path is made absolute. */
static rg_status find_path(const char *given, char **path_p)
{
    char *here = given[0] == '/' ? NULL : getcwd(NULL, 0);
    const int n = here == NULL ? asprintf(path_p, "%s", given)
                               : asprintf(path_p, "%s/%s", here, given);
    free(here);
    return n >= 0 ? RG_OK : rg__fail(RG_ERR_MEMORY, "no memory for a name");
}

static rg_status read_words(const rg__cli *cli, bool *starts_p, char **path_p)
{
    const char *word = cli->argc > 0 ? cli->argv[0] : "";
    *starts_p = strcmp(word, "start") == 0;
    if (!*starts_p && strcmp(word, "stop") != 0)
        return rg__fail(RG_ERR_INVALID,
                        "write `regroup timeline start FILE`, `regroup "
                        "timeline stop` or `regroup timeline merge FILE...`");
    if (*starts_p && (cli->argc < 2 || cli->argv[1][0] == '\0'))
        return rg__fail(RG_ERR_INVALID,
                        "`regroup timeline start` needs the name of a file");
    return find_path(*starts_p ? cli->argv[1] : "/", path_p);
}

static rg_status ask(const rg__job_record *job, const char *path,
                     json_t **answer_p)
{
    char *text = NULL;
    const rg_status st = rg__ask_timeline(job, path, &text);
    return st == RG_OK ? rg__document_accept(text, answer_p) : st;
}

static int merge(const rg__cli *cli)
{
    const rg_status st =
        cli->argc > 1
            ? rg__timeline_merge(cli->argv + 1, cli->argc - 1)
            : rg__fail(RG_ERR_INVALID, "`regroup timeline merge` needs FILEs");
    return st == RG_OK ? 0 : rg__cli_fail(st);
}

/* ------------------------------------------------------------- what it says */

static bool has_failed(const json_t *part)
{
    return json_object_get(part, "error") != NULL;
}

/* On `stop`, a host that writes none is no failure if another one did. */
static bool writes_none(const json_t *part)
{
    return rg__document_number(part, "status") == RG_ERR_INVALID;
}

static void show(const json_t *part, const char *job, bool starts, bool is_one)
{
    const char *host = rg__document_text(part, "host");
    if (starts)
        printf("the timeline of job %s is written to %s\n", job,
               rg__document_text(part, "file"));
    else
        printf("%s%sthe timeline has %lld events; %lld found no room\n",
               is_one ? "" : host, is_one ? "" : ": ",
               rg__document_number(part, "events"),
               rg__document_number(part, "dropped"));
}

static rg_status fail_hosts(const json_t *first, size_t failed, size_t hosts)
{
    const long long code = rg__document_number(first, "status");
    const rg_status st = code != 0 ? (rg_status)code : RG_ERR_AGENT_LOST;
    const char *why = rg__document_text(first, "error");
    if (hosts == 1)
        return rg__fail(st, "%s", why);
    return rg__fail(st, "%zu of %zu hosts failed, the first is %s: %s", failed,
                    hosts, rg__document_text(first, "host"), why);
}

/* Print the hosts that did it; an error names the first that did not. */
static rg_status tell(const json_t *hosts, const char *job, bool starts)
{
    const size_t n = json_array_size(hosts);
    const json_t *part, *first = NULL;
    size_t i, done = 0, failed = 0;
    json_array_foreach(hosts, i, part) done += !has_failed(part);
    json_array_foreach(hosts, i, part)
    {
        if (!has_failed(part)) {
            show(part, job, starts, n == 1);
        } else if (starts || done == 0 || !writes_none(part)) {
            first = failed++ == 0 ? part : first;
        }
    }
    return first == NULL ? RG_OK : fail_hosts(first, failed, n);
}

int rg__cmd_timeline(rg__cli *cli)
{
    if (cli->argc > 0 && strcmp(cli->argv[0], "merge") == 0)
        return merge(cli);
    rg__job_record job;
    json_t *answer = NULL;
    char *path = NULL;
    bool starts = false;
    rg_status st = read_words(cli, &starts, &path);
    if (st == RG_OK)
        st = rg__document_job(cli, starts ? 2 : 1, &job);
    if (st == RG_OK)
        st = ask(&job, starts ? path : "", &answer);
    if (st == RG_OK)
        st = tell(json_object_get(answer, "hosts"), job.job, starts);
    json_decref(answer);
    free(path);
    return st == RG_OK ? 0 : rg__cli_fail(st);
}
