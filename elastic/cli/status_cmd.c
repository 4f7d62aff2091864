/* `regroup status`: the agent's document, once or repeated: tables or JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/document.h"
#include "elastic/cli/follow.h"

#define SETS_MAX 20             /* rows; `--json` has all */
#define FORGET   "\033[H\033[J" /* to the top of the screen, which is cleared */

typedef struct watch {
    const rg__job_record *job;
    bool is_json;
    bool is_screen; /* a terminal: draw over what is there */
    bool is_again;  /* not the first */
} watch;

/* ------------------------------------------------------------------- tables */

static void print_job(const json_t *status)
{
    char vault[RG__CELL];
    const json_t *etcd = json_object_get(status, "etcd");
    rg__document_put_bytes(status, "vault_bytes", vault);
    printf(
        "job %s: generation %lld %s, world %lld (min %lld, max %lld), "
        "leader %s, etcd %s, vault %s\n",
        rg__document_text(status, "job"),
        rg__document_number(status, "generation"),
        rg__document_text(status, "phase"), rg__document_number(status, "size"),
        rg__document_number(status, "min"), rg__document_number(status, "max"),
        rg__document_text(status, "leader"), rg__document_text(etcd, "state"),
        vault);
    if (json_is_string(json_object_get(status, "metrics")))
        printf("metrics at http://%s/metrics\n",
               rg__document_text(status, "metrics"));
    if (strcmp(rg__document_text(status, "scope"), "job") != 0)
        printf("etcd gives no answer (%s): other hosts are as they were last "
               "seen\n",
               rg__document_text(etcd, "why"));
    else if (rg__document_text(etcd, "why")[0] != '\0')
        printf("etcd takes no writes (%s): membership changes wait\n",
               rg__document_text(etcd, "why"));
}

/* Only hosts that hear each other can miss each other. */
static void print_detect(const json_t *status)
{
    const json_t *detect = json_object_get(status, "detect");
    if (json_array_size(json_object_get(status, "hosts")) > 1)
        printf("a silent host is lost after %lld ms%s; the longest delay seen "
               "here is %.0f ms\n",
               rg__document_number(detect, "budget_ms"),
               rg__document_is(detect, "auto") ? " (auto)" : "",
               json_number_value(json_object_get(detect, "delay_ms")));
}

static void print_host(const json_t *host)
{
    char vault[RG__CELL], heard[RG__CELL], delay[RG__CELL];
    const char *address = rg__document_text(host, "address");
    rg__document_put_bytes(host, "vault_bytes", vault);
    rg__document_put_real(host, "heard_s", 1, "s", heard);
    rg__document_put_real(host, "delay_ms", 0, "ms", delay);
    printf("%-20s %-20s %-9s %-6s %-5s %8s %8s %10s\n",
           rg__document_text(host, "id"), address[0] != '\0' ? address : "-",
           rg__document_text(host, "state"),
           rg__document_is(host, "leader") ? "leads" : "-",
           rg__document_text(host, "etcd"), heard, delay, vault);
}

static void print_checkpoint(const json_t *status)
{
    const json_t *checkpoint = json_object_get(status, "checkpoint");
    const char *error = json_string_value(json_object_get(checkpoint, "error"));
    if (json_is_string(json_object_get(checkpoint, "file")))
        printf("checkpoint of step %lld: %s\n",
               rg__document_number(checkpoint, "step"),
               rg__document_text(checkpoint, "file"));
    if (error != NULL)
        printf("the newest checkpoint failed: %s\n", error);
}

/* Sources that announce something, or don't answer. */
static void print_notices(const json_t *status)
{
    size_t i;
    json_t *n;
    const json_t *notices = json_object_get(status, "notice");
    json_array_foreach((json_t *)notices, i, n)
    {
        const json_t *in = json_object_get(n, "goes_in_s");
        const char *source = rg__document_text(n, "source");
        const char *kind = rg__document_text(n, "notice");
        if (json_is_number(in))
            printf("this host is to go in %.0f s (%s: %s)\n",
                   json_number_value(in), source, rg__document_text(n, "what"));
        else if (strcmp(kind, "none") != 0)
            printf("advice of %s: %s\n", source, rg__document_text(n, "what"));
        if (strcmp(rg__document_text(n, "state"), "fails") == 0)
            printf("%s (%s) can't be heard: %s (--notice)\n", source,
                   rg__document_text(n, "asks"), rg__document_text(n, "why"));
    }
}

static void print_waits(const json_t *status)
{
    size_t i;
    json_t *wait;
    const json_t *waits = json_object_get(status, "waiting");
    json_array_foreach((json_t *)waits, i, wait)
        printf("%s waits for %s, for %.1f s now; it goes on when %s\n",
               rg__document_text(wait, "host"), rg__document_text(wait, "what"),
               json_number_value(json_object_get(wait, "seconds")),
               rg__document_text(wait, "until"));
}

static void print_slowest(const json_t *status)
{
    const json_t *one = json_object_get(status, "slowest");
    if (json_is_object(one))
        printf("slowest: %s.%lld computes %.2f ms of a step, half of the "
               "workers at most %.2f ms\n",
               rg__document_text(one, "host"), rg__document_number(one, "slot"),
               json_number_value(json_object_get(one, "busy_ms")),
               json_number_value(json_object_get(one, "median_ms")));
}

/* A worker outside of the world has no rank. */
static void print_worker(const json_t *host, const json_t *worker)
{
    char name[160], rank[RG__CELL], pid[RG__CELL], step[RG__CELL];
    char took[RG__CELL], waiting[RG__CELL] = "-";
    const json_t *share = json_object_get(worker, "waiting");
    snprintf(name, sizeof name, "%s.%lld", rg__document_text(host, "id"),
             rg__document_number(worker, "slot"));
    rg__document_put_number(worker, "rank", rank);
    rg__document_put_number(worker, "pid", pid);
    rg__document_put_number(worker, "step", step);
    rg__document_put_real(worker, "step_ms", 2, "ms", took);
    if (json_is_number(share))
        snprintf(waiting, RG__CELL, "%.0f %%", 100 * json_number_value(share));
    printf("%-20s %5s %9s %12s %10s %8s  %s\n", name, rank, pid, step, took,
           waiting, rg__document_text(worker, "state"));
}

static void print_hosts(const json_t *status)
{
    size_t h, w;
    json_t *host, *worker;
    const json_t *hosts = json_object_get(status, "hosts");
    printf("\n%-20s %-20s %-9s %-6s %-5s %8s %8s %10s\n", "host", "address",
           "state", "role", "etcd", "heard", "delay", "vault");
    json_array_foreach((json_t *)hosts, h, host) print_host(host);
    printf("\n%-20s %5s %9s %12s %10s %8s  %s\n", "worker", "rank", "pid",
           "step", "a step", "waiting", "state");
    json_array_foreach((json_t *)hosts, h, host)
        json_array_foreach(json_object_get(host, "workers"), w, worker)
            print_worker(host, worker);
}

static void print_set(const json_t *set)
{
    char kind[RG__CELL];
    snprintf(kind, sizeof kind, "%s%s", rg__document_text(set, "kind"),
             rg__document_is(set, "keep") ? ", keep" : "");
    printf("%-32s %5lld %6lld  %-12s %s\n", rg__document_text(set, "name"),
           rg__document_number(set, "id"), rg__document_number(set, "size"),
           kind, rg__document_text(set, "ranks"));
}

/* The world has its place in the first line. */
static void print_sets(const json_t *status)
{
    const json_t *sets = json_object_get(status, "sets");
    const size_t n = json_array_size(sets);
    if (n < 2)
        return;
    printf("\n%-32s %5s %6s  %-12s %s\n", "set", "id", "size", "kind", "ranks");
    for (size_t i = 1; i < n && i <= SETS_MAX; i++)
        print_set(json_array_get(sets, i));
    if (n > SETS_MAX + 1)
        printf("and %zu more: regroup status --json shows all\n",
               n - SETS_MAX - 1);
}

static void print_changes(const json_t *status)
{
    size_t i;
    json_t *change;
    const json_t *changes = json_object_get(status, "changes");
    if (json_array_size(changes) == 0)
        return;
    printf("\n%10s %9s %7s %9s  %s\n", "generation", "world", "lost", "to step",
           "cause");
    json_array_foreach((json_t *)changes, i, change)
    {
        char world[RG__CELL], lost[RG__CELL], ms[RG__CELL];
        rg__document_put_lost(change, lost);
        rg__document_put_real(change, "fault_to_step_ms", 1, "ms", ms);
        snprintf(world, sizeof world, "%lld > %lld",
                 rg__document_number(change, "from_size"),
                 rg__document_number(change, "to_size"));
        printf("%10lld %9s %7s %9s  %s\n",
               rg__document_number(change, "generation"), world, lost, ms,
               rg__document_text(change, "cause"));
    }
    const long long before = rg__document_number(status, "changes_total") -
                             (long long)json_array_size(changes);
    if (before > 0)
        printf("earlier changes that are not kept: %lld\n", before);
}

static void print_tables(const json_t *status)
{
    print_job(status);
    print_detect(status);
    print_checkpoint(status);
    print_notices(status);
    print_waits(status);
    print_hosts(status);
    print_slowest(status);
    print_sets(status);
    print_changes(status);
}

/* --------------------------------------------------------------------- once */

static rg_status show(const watch *w)
{
    char *text = NULL;
    json_t *status = NULL;
    rg_status st = rg__ask_status(w->job, &text);
    if (st == RG_OK)
        st = rg__document_read(text, &status);
    if (st != RG_OK)
        return st;
    if (w->is_screen)
        fputs(FORGET, stdout);
    else if (w->is_again && !w->is_json)
        putchar('\n');
    if (w->is_json)
        rg__document_print(status, w->is_again);
    else
        print_tables(status);
    fflush(stdout);
    json_decref(status);
    return RG_OK;
}

/* -------------------------------------------------------------------- watch */

static rg_status show_again(void *arg)
{
    watch *w = arg;
    const rg_status st = show(w);
    w->is_again = true;
    return st;
}

static int watch_job(watch *w, uint64_t interval_ms)
{
    rg__over over;
    char *last = NULL;
    w->is_screen = !w->is_json && isatty(STDOUT_FILENO);
    w->is_again = w->is_json; /* a line each */
    const rg_status st =
        rg__follow(w->job, interval_ms, show_again, w, &over, &last);
    free(last);
    if (st != RG_OK)
        return rg__cli_fail(st);
    if (!w->is_json)
        printf("\njob %s has ended with code %d%s%s\n", w->job->job, over.code,
               over.why[0] != '\0' ? ": " : "", over.why);
    return over.code;
}

int rg__cmd_status(rg__cli *cli)
{
    rg__job_record job;
    watch w = {.job = &job, .is_json = cli->json};
    rg_status st = rg__document_job(cli, 0, &job);
    if (st == RG_OK && cli->watch)
        return watch_job(&w, cli->settings.interval_ms);
    if (st == RG_OK)
        st = show(&w);
    return st == RG_OK ? 0 : rg__cli_fail(st);
}
