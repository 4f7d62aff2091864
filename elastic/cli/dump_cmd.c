/* `regroup dump`: what all workers of a job have been doing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/document.h"

/* A dump, or why there is none. */
static rg_status show(char *text)
{
    static const char refusal[] = "{\"error\":";
    json_t *answer = NULL;
    if (strncmp(text, refusal, sizeof refusal - 1) == 0) {
        const rg_status st = rg__document_accept(text, &answer);
        json_decref(answer);
        return st;
    }
    puts(text);
    free(text);
    return RG_OK;
}

int rg__cmd_dump(rg__cli *cli)
{
    rg__job_record job;
    char *text = NULL;
    const uint64_t wants = (cli->json ? RG__DUMP_JSON : 0) |
                           (cli->no_stacks ? 0 : RG__DUMP_STACKS);
    rg_status st = rg__document_job(cli, 0, &job);
    if (st == RG_OK)
        st = rg__ask_dump(&job, wants, &text);
    if (st == RG_OK)
        st = show(text);
    return st == RG_OK ? 0 : rg__cli_fail(st);
}
