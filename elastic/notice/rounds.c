/* The rounds in which a source is asked:
 *
 *   wait ─> ask ─> says     next round after --notice-every
 *    ▲       └──> fails     next round after a pause that doubles
 *    └──────────────┘
 *
 * A source whose server waits for news (gcp) is asked again as soon as it has
 * answered, but rounds begin no closer to each other than that time. */
#include "elastic/notice/notice_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sdk/base/clock.h"
#include "sdk/base/log.h"

#define PATIENCE          5 /* times --notice-every, for a file or a command, */
#define PATIENCE_LEAST_MS 1000  /* but at least so long, */
#define PATIENCE_MOST_MS  10000 /* and no longer */
#define PAUSE_MOST_MS     10000 /* of a source that fails: it may have news */

const char *rg__source_asks(const rg__source *s)
{
    return s->kind->asks != NULL ? s->kind->asks : s->value;
}

static uint64_t every_ms(const rg__source *s)
{
    const uint64_t most = s->kind->most_ms;
    return most != 0 && most < s->all->every_ms ? most : s->all->every_ms;
}

static uint64_t patience_ms(const rg__source *s)
{
    const uint64_t ms = PATIENCE * s->all->every_ms;
    return ms < PATIENCE_LEAST_MS  ? PATIENCE_LEAST_MS
           : ms > PATIENCE_MOST_MS ? PATIENCE_MOST_MS
                                   : ms;
}

static void ask(rg__source *s)
{
    s->is_asking = true;
    s->round_ns = rg__now_ns();
    if (s->kind->web == NULL) /* curl has time-outs of its own */
        rg__timer_set(s->timer, patience_ms(s) * RG__MS);
    s->kind->ask(s);
}

void rg__source_on_timer(void *arg)
{
    rg__source *s = arg;
    if (!s->is_asking) {
        ask(s);
        return;
    }
    if (s->kind->stop != NULL)
        s->kind->stop(s);
    rg__source_fails(s, "it gives no answer within %.0f s",
                     (double)patience_ms(s) / 1000);
}

static void wait_for_next(rg__source *s, uint64_t pause_ns)
{
    const uint64_t since = rg__now_ns() - s->round_ns;
    s->is_asking = false;
    rg__timer_set(s->timer, pause_ns > since ? pause_ns - since : 0);
}

static bool is_same(const rg__notice *a, const rg__notice *b)
{
    return a->kind == b->kind && a->at_ms == b->at_ms && a->in_ms == b->in_ms &&
           strcmp(a->what, b->what) == 0 && strcmp(a->id, b->id) == 0;
}

static void log_change(const rg__source *s, const rg__notice *now)
{
    if (now->kind == RG__NOTICE_NONE)
        rg__log(RG__WARN, "notice", "%s (%s) has withdrawn: %s", s->kind->name,
                rg__source_asks(s), s->notice.what);
    else
        rg__log(RG__WARN, "notice", "%s (%s) %s: %s", s->kind->name,
                rg__source_asks(s),
                now->kind == RG__NOTICE_LEAVE ? "announces" : "advises",
                now->what);
}

void rg__source_says(rg__source *s, const rg__notice *now)
{
    const bool is_news = !is_same(&s->notice, now);
    const bool has_recovered = s->state != RG__SOURCE_ANSWERS;
    if (s->state == RG__SOURCE_FAILS)
        rg__log(RG__INFO, "notice", "%s (%s) answers again", s->kind->name,
                rg__source_asks(s));
    if (is_news)
        log_change(s, now);
    if (is_news && now->kind != s->notice.kind)
        s->seen_ns = rg__now_ns();
    s->notice = *now;
    s->state = RG__SOURCE_ANSWERS;
    s->why[0] = '\0';
    s->failures = 0;
    wait_for_next(s, every_ms(s) * RG__MS);
    if (is_news || has_recovered)
        s->all->changed(s->all->arg);
}

static uint64_t pause_ms(const rg__source *s)
{
    uint64_t ms = every_ms(s);
    for (int i = 1; i < s->failures && ms < PAUSE_MOST_MS; i++)
        ms *= 2;
    return ms < PAUSE_MOST_MS || ms == every_ms(s) ? ms : PAUSE_MOST_MS;
}

/* Its last announcement still counts. */
void rg__source_fails(rg__source *s, const char *format, ...)
{
    const bool is_new = s->state != RG__SOURCE_FAILS;
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
    s->state = RG__SOURCE_FAILS;
    s->failures++;
    if (is_new)
        rg__log(RG__WARN, "notice",
                "%s (%s) can't be heard: %s; it is asked again (--notice)",
                s->kind->name, rg__source_asks(s), s->why);
    wait_for_next(s, pause_ms(s) * RG__MS);
    if (is_new)
        s->all->changed(s->all->arg);
}
