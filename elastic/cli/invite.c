/* The line to paste on another host, with the secrets beside it in a file. */
#include "elastic/cli/invite.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/log.h"

static void print_quoted(FILE *out, const char *word)
{
    const size_t n = strlen(word);
    if (n > 0 && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                              "WXYZ0123456789-_=+./:,@%^") == n) {
        fprintf(out, " %s", word);
        return;
    }
    fputs(" '", out);
    for (; *word != '\0'; word++)
        fputs(*word == '\'' ? "'\\''" : (char[2]){*word}, out);
    fputs("'", out);
}

/* Settings of the job that were given here are given there too, except its
 * size, which is in etcd. */
static void print_settings(FILE *out, const rg__cfg *cfg)
{
    static const char *const names[] = {
        "MAX_RESTARTS",     "START_TIMEOUT",   "ELASTIC_TIMEOUT",
        "ETCD_TIMEOUT",     "AGENT_GRACE",     "DETECT",
        "CHECKPOINT_EVERY", "CHECKPOINT_KEEP", "CHECKPOINT_ON_STOP"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int at = rg__cfg_find(cfg, names[i]);
        const rg__cfg_item item = rg__cfg_at(cfg, (size_t)at);
        if (item.origin == RG__CFG_DEFAULT)
            continue;
        fputs(" --", out);
        for (const char *c = names[i]; *c != '\0'; c++)
            fputc(*c == '_' ? '-' : tolower((unsigned char)*c), out);
        print_quoted(out, item.text);
    }
}

static void print_line(FILE *out, const rg__private_etcd *etcd,
                       const rg__launch *launch, const rg__cli *cli)
{
    fprintf(out,
            "  regroup agent --etcd %s --etcd-invitation %s --etcd-ca-hash %s "
            "--job %s",
            etcd->endpoint, RG__CERTS_INVITATION, etcd->ca_hash, launch->job);
    if (launch->slots > 0) /* a launcher has none */
        fprintf(out, " --slots %d", launch->slots);
    print_settings(out, cli->cfg);
    if (launch->checkpoint[0] != '\0') {
        fputs(" --checkpoint-dir", out);
        print_quoted(out, launch->checkpoint);
    }
    fputs(" --", out);
    for (int i = 0; i < cli->argc; i++)
        print_quoted(out, cli->argv[i]);
}

rg_status rg__invite(const rg__private_etcd *etcd, const rg__launch *launch,
                     const rg__cli *cli)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (out == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to say how hosts join");
    fprintf(out, "other hosts join job %s with\n", launch->job);
    print_line(out, etcd, launch, cli);
    fprintf(
        out,
        "\n  where %s is a copy of %s of this host (mode 0600; any process "
        "that can read it can write the job's keys)\n"
        "this host has the job's etcd: without it no host is replaced, and the "
        "job ends; an etcd of your own (--etcd) makes every host dispensable",
        RG__CERTS_INVITATION, etcd->invitation);
    fclose(out);
    rg__say("%s", text != NULL ? text : "");
    free(text);
    return RG_OK;
}
