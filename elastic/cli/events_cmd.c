/* `regroup events`: what has happened to a job, a line for each event. */
#include <stdio.h>
#include <string.h>

#include "elastic/cli/ask.h"
#include "elastic/cli/cli.h"
#include "elastic/cli/document.h"
#include "elastic/cli/follow.h"
#include "sdk/base/fail.h"

#define LATEST 4 /* of generations: their events may still come */

typedef struct reader {
    const rg__job_record *job;
    bool is_json, is_following;
    json_t *shown;     /* keys of events that were printed */
    long long decided; /* the newest decided generation */
} reader;

static reader reader_of(const rg__cli *cli, const rg__job_record *job)
{
    return (reader){.job = job,
                    .is_json = cli->json,
                    .is_following = cli->follow,
                    .shown = json_object()};
}

/* ---------------------------------------------------------------- one event */

static void put_world(const json_t *event, char cell[RG__CELL])
{
    char from[RG__CELL], to[RG__CELL];
    rg__document_put_number(event, "from_size", from);
    rg__document_put_number(event, "to_size", to);
    if (strcmp(from, "-") == 0)
        snprintf(cell, RG__CELL, "%.14s", to);
    else
        snprintf(cell, RG__CELL, "%.12s > %.12s", from, to);
}

static void put_resume(const json_t *event, char cell[RG__CELL])
{
    const json_t *resume = json_object_get(event, "resume");
    if (json_is_array(resume))
        snprintf(cell, RG__CELL, "%lld:%lld",
                 (long long)json_integer_value(json_array_get(resume, 0)),
                 (long long)json_integer_value(json_array_get(resume, 1)));
    else
        strcpy(cell, "-");
}

static void print_heads(void)
{
    printf("%-23s %5s  %-8s %9s %7s %10s %10s  %s\n", "time", "gen", "event",
           "world", "lost", "resume", "recovery", "why");
}

static void print_event(const json_t *event)
{
    char at[RG__CELL], world[RG__CELL], lost[RG__CELL], resume[RG__CELL],
        recovery[RG__CELL];
    rg__document_put_time(event, "at", at);
    put_world(event, world);
    rg__document_put_lost(event, lost);
    put_resume(event, resume);
    rg__document_put_real(event, "recovery_ms", 1, "ms", recovery);
    printf("%-23s %5lld  %-8s %9s %7s %10s %10s  %s\n", at,
           rg__document_number(event, "generation"),
           rg__document_text(event, "event"), world, lost, resume, recovery,
           rg__document_text(event, "why"));
}

/* --------------------------------------------------------------- the events */

/* true: it was not shown yet. */
static bool is_news(reader *s, const json_t *event)
{
    char key[256];
    snprintf(
        key, sizeof key, "%lld %s %s", rg__document_number(event, "generation"),
        rg__document_text(event, "event"), rg__document_text(event, "worker"));
    if (json_object_get(s->shown, key) != NULL)
        return false;
    json_object_set_new(s->shown, key, json_true());
    return true;
}

static void tell(reader *s, const json_t *events)
{
    size_t i;
    json_t *event;
    json_array_foreach((json_t *)events, i, event)
    {
        if (!is_news(s, event))
            continue;
        if (strcmp(rg__document_text(event, "event"), "decided") == 0)
            s->decided = rg__document_number(event, "generation");
        if (s->is_json)
            rg__document_print(event, true);
        else
            print_event(event);
    }
    fflush(stdout);
}

/* Takes the text. */
static rg_status tell_text(reader *s, char *text)
{
    json_t *events = NULL;
    const rg_status st = rg__document_read(text, &events);
    if (st != RG_OK)
        return st;
    if (s->is_json && !s->is_following) {
        rg__document_print(events, false);
    } else {
        tell(s, events);
    }
    json_decref(events);
    return RG_OK;
}

/* Reasons are published behind the decisions that they have led to. */
static rg_status ask(void *arg)
{
    reader *s = arg;
    char *text = NULL;
    const uint64_t decided = (uint64_t)s->decided;
    const rg_status st =
        rg__ask_events(s->job, decided > LATEST ? decided - LATEST : 0, &text);
    return st == RG_OK ? tell_text(s, text) : st;
}

/* ------------------------------------------------------------------- follow */

static int follow(reader *s, uint64_t interval_ms)
{
    rg__over over;
    char *last = NULL;
    rg_status st = rg__follow(s->job, interval_ms, ask, s, &over, &last);
    if (st == RG_OK && last != NULL)
        st = tell_text(s, last);
    return st == RG_OK ? over.code : rg__cli_fail(st);
}

/* Events of a job that has ended; false: there is none of that name. */
static bool tell_ended(const rg__cli *cli, int *code_p)
{
    char base[PATH_MAX], *text = NULL;
    reader s = reader_of(cli, NULL);
    const bool is_there =
        cli->argc == 1 && rg__is_name(cli->argv[0]) &&
        rg__rundir_base(cli->settings.run_dir, base) == RG_OK &&
        rg__rundir_event_log(base, cli->argv[0], &text) == RG_OK;
    if (is_there && !s.is_json)
        print_heads();
    const rg_status st = is_there ? tell_text(&s, text) : RG_OK;
    *code_p = st == RG_OK ? 0 : rg__cli_fail(st);
    json_decref(s.shown);
    return is_there;
}

int rg__cmd_events(rg__cli *cli)
{
    rg__job_record job;
    int code = 0;
    rg_status st = rg__document_job(cli, 0, &job);
    if (st != RG_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s", rg_last_error());
        if (tell_ended(cli, &code))
            return code;
        return rg__cli_fail(rg__fail(st, "%s", why));
    }
    reader s = reader_of(cli, &job);
    if (!s.is_json)
        print_heads();
    if (cli->follow)
        code = follow(&s, cli->settings.interval_ms);
    else if ((st = ask(&s)) != RG_OK)
        code = rg__cli_fail(st);
    json_decref(s.shown);
    return code;
}
