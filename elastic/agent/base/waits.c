/* A list, searched from its start: an agent waits for a handful of things. */
#include "elastic/agent/base/waits.h"
#include "elastic/agent/base/agent_state.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>

#include "sdk/base/clock.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"

typedef struct wait {
    rg__wait_kind kind;
    uint64_t key, since_ns;
    bool is_said;
    char text[RG__CAUSE_MAX];
} wait;

struct rg__wait_list {
    rg__timer *timer; /* for the oldest that is not reported */
    wait *wait;
    int count;
};

static const struct {
    const char *name, *until;
} kinds[RG__WAIT_KIND_COUNT] = {
#define X(name, text, until) {text, until},
    RG__WAIT_KINDS(X)
#undef X
};

static double seconds(const wait *w)
{
    return (double)(rg__now_ns() - w->since_ns) / 1e9;
}

static wait *find(const rg__agent *a, rg__wait_kind kind, uint64_t key)
{
    for (int i = 0; a->waits != NULL && i < a->waits->count; i++)
        if (a->waits->wait[i].kind == kind && a->waits->wait[i].key == key)
            return &a->waits->wait[i];
    return NULL;
}

static void say(const rg__agent *a, wait *w)
{
    w->is_said = true;
    rg__log(RG__WARN, "agent",
            "host %s waits for %s, for %.1f s now; it goes on when %s",
            a->params->host, w->text, seconds(w), kinds[w->kind].until);
}

static void look(void *arg)
{
    const rg__agent *a = arg;
    const uint64_t now = rg__now_ns(), budget = rg__patience_ns(a->params);
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < a->waits->count; i++) {
        wait *w = &a->waits->wait[i];
        if (!w->is_said && now - w->since_ns >= budget)
            say(a, w);
        else if (!w->is_said && w->since_ns + budget - now < next)
            next = w->since_ns + budget - now;
    }
    if (next != UINT64_MAX)
        rg__timer_set(a->waits->timer, next);
}

/* Waits are shown as far as there is memory for them. */
static rg__wait_list *waits_of(rg__agent *a)
{
    rg__wait_list *all = a->waits != NULL ? a->waits : calloc(1, sizeof *all);
    if (all != NULL && all->timer == NULL)
        all->timer = rg__timer_create(a->loop, look, a);
    a->waits = all;
    return all != NULL && all->timer != NULL ? all : NULL;
}

static wait *add(rg__agent *a, rg__wait_kind kind, uint64_t key)
{
    rg__wait_list *all = waits_of(a);
    wait *one = all != NULL
                    ? rg__grow(&all->wait, (size_t)all->count, sizeof *one)
                    : NULL;
    if (one == NULL)
        return NULL;
    *one = (wait){.kind = kind, .key = key, .since_ns = rg__now_ns()};
    all->count++;
    if (!rg__timer_is_set(all->timer))
        rg__timer_set(all->timer, rg__patience_ns(a->params));
    return one;
}

void rg__wait_begin(rg__agent *a, rg__wait_kind kind, uint64_t key,
                    const char *format, ...)
{
    wait *w = find(a, kind, key);
    if (w == NULL)
        w = add(a, kind, key);
    if (w == NULL)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(w->text, sizeof w->text, format, args);
    va_end(args);
}

void rg__wait_end(rg__agent *a, rg__wait_kind kind, uint64_t key)
{
    wait *w = find(a, kind, key);
    if (w == NULL)
        return;
    if (w->is_said)
        rg__log(RG__WARN, "agent",
                "host %s has waited %.1f s for %s; it goes on", a->params->host,
                seconds(w), w->text);
    *w = a->waits->wait[--a->waits->count];
}

int rg__waits_said(const rg__agent *a)
{
    int n = 0;
    for (int i = 0; a->waits != NULL && i < a->waits->count; i++)
        n += a->waits->wait[i].is_said;
    return n;
}

struct json_t *rg__waits_json(const rg__agent *a)
{
    json_t *all = json_array();
    for (int i = 0; a->waits != NULL && i < a->waits->count; i++) {
        const wait *w = &a->waits->wait[i];
        if (w->is_said)
            json_array_append_new(
                all, json_pack("{s:s,s:s,s:s,s:f,s:s}", "host", a->params->host,
                               "kind", kinds[w->kind].name, "what", w->text,
                               "seconds", seconds(w), "until",
                               kinds[w->kind].until));
    }
    return all;
}

void rg__waits_drop(rg__agent *a)
{
    if (a->waits == NULL)
        return;
    rg__timer_destroy(a->waits->timer);
    free(a->waits->wait);
    free(a->waits);
    a->waits = NULL;
}
