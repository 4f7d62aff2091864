/* What is printed about a job at its end, in five lines: generations and why
 * they began, steps lost, how long recoveries took, the newest checkpoint, how
 * it ended. A host that leaves a job which goes on prints none of it, and a
 * static program has nothing to print. A launcher prints it for its hosts,
 * which print how long their recoveries took. */
#include "elastic/agent/leaving/leaving.h"
#include "elastic/agent/leaving/leaving_parts.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/checkpoint/saver.h"
#include "elastic/agent/generation/generation.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "sdk/base/log.h"

#define LINE_MAX_ 512

typedef struct line {
    char text[LINE_MAX_];
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l,
                                                      const char *format, ...)
{
    va_list args;
    const size_t n = strlen(l->text);
    va_start(args, format);
    vsnprintf(l->text + n, sizeof l->text - n, format, args);
    va_end(args);
}

static void say_generations(const rg__total *total)
{
    line l = {""};
    for (int kind = 0; kind < RG__KINDS; kind++)
        if (total->changes[kind] > 0)
            add(&l, "%s%" PRIu64 " %s", l.text[0] != '\0' ? ", " : "",
                total->changes[kind],
                rg__cause_kind_name((rg__cause_kind)kind));
    rg__tell("generations: %" PRIu64 " (%s)", rg__total_changes(total), l.text);
}

static void say_lost(const rg__total *total)
{
    line l = {""};
    if (total->lost_unknown > 0)
        add(&l, ", and an unknown number by %" PRIu64 " changes",
            total->lost_unknown);
    rg__tell("steps lost: %" PRIu64 "%s", total->steps_lost, l.text);
}

/* Of this host, as long as their times are kept. */
static void say_recoveries(const rg__agent *a)
{
    double least = 0, most = 0;
    int n = 0;
    for (int i = 0; i < rg__changes(a); i++) {
        const rg__change *c = rg__change_at(a, i);
        if (c->generation <= 1 || c->detected == 0 || c->stepped <= c->detected)
            continue;
        const double ms = (double)(c->stepped - c->detected) / 1e6;
        least = n == 0 || ms < least ? ms : least;
        most = ms > most ? ms : most;
        n++;
    }
    if (n == 0 && !a->params->is_launched)
        rg__tell("recoveries on this host: none");
    else if (n == 1)
        rg__tell("recoveries on this host: 1, %.1f ms until the next step",
                 most);
    else if (n > 1)
        rg__tell("recoveries on this host: %d, from %.1f to %.1f ms until the "
                 "next step",
                 n, least, most);
}

static void say_checkpoint(const rg__agent *a)
{
    const rg__saved *saved = &a->view.saved;
    const char *slash = strrchr(saved->file, '/');
    const int n = slash != NULL ? (int)(slash - saved->file) : 0;
    if (saved->serial != 0)
        rg__tell("checkpoint of step %" PRIu64 " in %.*s%s%s",
                 saved->commit.step, n, saved->file,
                 saved->error[0] != '\0' ? ", none since: " : "", saved->error);
    else if (saved->error[0] != '\0')
        rg__tell("%s", saved->error);
    else if (a->saver->loaded_step != 0)
        rg__tell("no checkpoint since that of step %" PRIu64
                 ", which was loaded",
                 a->saver->loaded_step - 1);
    else
        rg__tell("no checkpoint%s", a->params->checkpoint_dir == NULL
                                        ? ": there is no --checkpoint-dir"
                                        : "");
}

static void say_exit(const rg__agent *a)
{
    rg__tell("job %s %s%s; exit code %d", a->params->job,
             a->is_done ? "is done" : "has ended: ",
             a->is_done ? "" : a->verdict.why, a->verdict.code);
}

/* A launcher's agent has no worker that says what the program is; only an
 * elastic one makes commits. */
static bool is_static(const rg__agent *a)
{
    return a->params->slots == 0 ? a->view.begun == 0 : rg__view_is_static(a);
}

void rg__summary_say(rg__agent *a)
{
    const rg__total total = rg__snapshot_total(&a->view);
    if ((!a->is_done && !a->leaving->ends_job) || a->delivered == 0 ||
        is_static(a))
        return;
    rg__change_note_steps(a, a->delivered);
    if (a->params->is_launched) {
        say_recoveries(a);
        return;
    }
    say_generations(&total);
    say_lost(&total);
    if (a->params->slots > 0)
        say_recoveries(a);
    say_checkpoint(a);
    say_exit(a);
}
