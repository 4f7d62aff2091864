/* `regroup scale`: other bounds for the world of a job that runs. */
#include <jansson.h>
#include <stdio.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/document.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* A variable or the file speaks of jobs that are started. 0: not given. */
static int given(const rg__cli *cli, const char *name, int value)
{
    const int at = rg__cfg_find(cli->cfg, name);
    return rg__cfg_at(cli->cfg, (size_t)at).origin == RG__CFG_FLAG ? value : 0;
}

static rg_status read_sizes(const rg__cli *cli, int *min_p, int *max_p)
{
    const int np = given(cli, "NP", cli->settings.np);
    *min_p = given(cli, "MIN", cli->settings.min);
    *max_p = given(cli, "MAX", cli->settings.max);
    if (np == 0 && *min_p == 0 && *max_p == 0)
        return rg__fail(RG_ERR_INVALID,
                        "no size was given; write it as in `regroup scale "
                        "--min 2 --max 6`, or with -n");
    if (np != 0 && (*min_p != 0 || *max_p != 0))
        return rg__fail(RG_ERR_INVALID,
                        "-n %d means --min %d --max %d; leave one of them out",
                        np, np, np);
    if (np != 0)
        *min_p = *max_p = np;
    return RG_OK;
}

static rg_status ask(const rg__job_record *job, int min, int max,
                     json_t **answer_p)
{
    char *text = NULL;
    const rg_status st = rg__ask_scale(job, min, max, &text);
    return st == RG_OK ? rg__document_accept(text, answer_p) : st;
}

static void show(const rg__job_record *job, const json_t *answer)
{
    const int min = (int)rg__document_number(answer, "min");
    const int size = (int)rg__document_number(answer, "size");
    const int max = (int)rg__document_number(answer, "max");
    printf("job %s has %d to %d worker%s from now on, and %d at the moment\n",
           job->job, min, max, rg__plural(max), size);
    if (size < min)
        printf("they go on; after the next fault the job waits until it has "
               "--min\n");
}

int rg__cmd_scale(rg__cli *cli)
{
    rg__job_record job;
    json_t *answer = NULL;
    int min = 0, max = 0;
    rg_status st = read_sizes(cli, &min, &max);
    if (st == RG_OK)
        st = rg__document_job(cli, 0, &job);
    if (st == RG_OK)
        st = ask(&job, min, max, &answer);
    if (st == RG_OK)
        show(&job, answer);
    json_decref(answer);
    return st == RG_OK ? 0 : rg__cli_fail(st);
}
