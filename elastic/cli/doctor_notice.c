/* Each source is asked as an agent would, until it has answered or failed. */
#include "elastic/cli/doctor_notice.h"

#include <stdio.h>
#include <string.h>

#include "elastic/cli/finding.h"
#include "elastic/notice/notice.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define PATIENCE_NS (6000 * RG__MS)
#define EVERY_MS    60000 /* once is enough */

typedef struct look {
    rg__loop *loop;
    rg__notices *notices;
    rg__timer *patience;
} look;

static void look_again(void *arg)
{
    const look *l = arg;
    for (int i = 0; i < rg__notices_count(l->notices); i++)
        if (rg__notices_at(l->notices, i).state == RG__SOURCE_ASKED)
            return;
    rg__loop_stop(l->loop);
}

static void on_impatient(void *arg)
{
    const look *l = arg;
    rg__loop_stop(l->loop);
}

static rg__finding judge(const rg__source_view *v, bool is_named)
{
    switch (v->state) {
    case RG__SOURCE_FAILS:
        return rg__find(is_named ? RG__FAIL : RG__WEAK,
                        "%s can't be heard: %s; give another "
                        "--notice, or --notice none",
                        v->asks, v->why);
    case RG__SOURCE_ASKED:
        return rg__find(RG__WEAK,
                        "%s has not answered within %d s (Azure takes up to "
                        "two minutes the first time)",
                        v->asks, (int)(PATIENCE_NS / (1000 * RG__MS)));
    case RG__SOURCE_ANSWERS:
        break;
    }
    if (v->notice->kind == RG__NOTICE_NONE)
        return rg__find(RG__OK, "%s answers: nothing is announced", v->asks);
    return rg__find(RG__WEAK, "%s %s: %s", v->asks,
                    v->notice->kind == RG__NOTICE_LEAVE ? "announces"
                                                        : "advises",
                    v->notice->what);
}

/* is_named: a person named the sources, not the firmware. */
static bool print_findings(const rg__notices *notices, bool is_named)
{
    bool has_failed = false;
    if (rg__notices_count(notices) == 0) {
        const rg__finding f =
            rg__find(RG__OK, is_named ? "no source is named (--notice)"
                                      : "the firmware of this machine names no "
                                        "cloud, so none is asked (--notice)");
        rg__finding_print("notice", &f);
    }
    for (int i = 0; i < rg__notices_count(notices); i++) {
        char name[32];
        const rg__source_view v = rg__notices_at(notices, i);
        const rg__finding f = judge(&v, is_named);
        snprintf(name, sizeof name, "notice %s", v.name);
        has_failed |= rg__finding_print(name, &f);
    }
    return has_failed;
}

static rg_status ask(look *l, const rg__settings *s)
{
    const rg__notices_params params = {.list = s->user.notice,
                                       .base = s->user.notice_base,
                                       .dmi = s->user.notice_dmi,
                                       .every_ms = EVERY_MS,
                                       .changed = look_again,
                                       .arg = l};
    rg_status st = rg__notices_check(s->user.notice, s->user.notice_base);
    if (st == RG_OK)
        st = rg__loop_create(&l->loop);
    if (st == RG_OK)
        st = rg__notices_create(l->loop, &params, &l->notices);
    l->patience =
        st == RG_OK ? rg__timer_create(l->loop, on_impatient, l) : NULL;
    if (st == RG_OK && l->patience == NULL)
        st = rg__fail(RG_ERR_MEMORY, "no memory to ask for notices");
    if (st == RG_OK && rg__notices_count(l->notices) > 0) {
        rg__timer_set(l->patience, PATIENCE_NS);
        rg__loop_run(l->loop);
    }
    return st;
}

bool rg__doctor_notice(const rg__settings *s)
{
    look l = {NULL};
    bool has_failed = true;
    rg__log_levels("error"); /* what they say is printed here */
    if (ask(&l, s) == RG_OK) {
        has_failed =
            print_findings(l.notices, strcmp(s->user.notice, "auto") != 0);
    } else {
        const rg__finding f = rg__find(RG__FAIL, "%s", rg_last_error());
        rg__finding_print("notice", &f);
    }
    rg__notices_destroy(l.notices);
    rg__timer_destroy(l.patience);
    if (l.loop != NULL)
        rg__loop_destroy(l.loop);
    return has_failed;
}
