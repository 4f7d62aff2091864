/* The table of sources, and the list of those in use. */
#include "elastic/notice/notice_parts.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

#define FILE_EVERY_MS 500
#define FILE_HERE     "/run/regroup/notice"

#define WEB .ask = rg__web_ask, .stop = rg__web_stop

static const rg__source_kind kinds[] = {
    {.name = "aws",
     .asks = "spot/instance-action",
     .web = &rg__aws_interruption,
     WEB},
    {.name = "aws",
     .asks = "events/recommendations/rebalance",
     .web = &rg__aws_rebalance,
     WEB},
    {.name = "gcp",
     .asks = "instance/preempted",
     .web = &rg__gcp_preempted,
     WEB},
    {.name = "gcp",
     .asks = "instance/maintenance-event",
     .web = &rg__gcp_maintenance,
     WEB},
    {.name = "azure", .asks = "scheduledevents", .web = &rg__azure_events, WEB},
    {.name = "kubernetes",
     .form = "PATH",
     .value = FILE_HERE,
     .most_ms = FILE_EVERY_MS,
     .ask = rg__file_ask,
     .close = rg__file_close},
    {.name = "file",
     .form = "PATH",
     .most_ms = FILE_EVERY_MS,
     .ask = rg__file_ask,
     .close = rg__file_close},
    {.name = "url", .form = "URL", .web = &rg__site_url, WEB},
    {.name = "command",
     .form = "CMD",
     .ask = rg__command_ask,
     .stop = rg__command_stop,
     .close = rg__command_close},
};

#define KINDS (sizeof kinds / sizeof *kinds)

/* ---------------------------------------------------------------- the list */

/* How long the name at the start of a text is, if it is one of the table, or
 * "auto" or "none". */
static size_t name_at(const char *text)
{
    const size_t n = strcspn(text, ":,");
    if ((n == 4 && strncmp(text, "auto", n) == 0) ||
        (n == 4 && strncmp(text, "none", n) == 0))
        return n;
    for (size_t i = 0; i < KINDS; i++)
        if (strlen(kinds[i].name) == n && strncmp(text, kinds[i].name, n) == 0)
            return n;
    return 0;
}

/* A comma separates two sources if a source's name follows it; another one
 * belongs to a path or a command. */
static const char *end_of_entry(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (*c == ',' && name_at(c + 1) > 0)
            return c;
    return text + strlen(text);
}

static rg_status fail_entry(const char *entry, const char *why)
{
    return rg__fail(RG_ERR_INVALID,
                    "\"%.100s\" of --notice %s; sources are aws, gcp, azure, "
                    "kubernetes[:PATH], file:PATH, url:URL, command:CMD, auto "
                    "and none",
                    entry, why);
}

static rg_status check_value(const rg__source_kind *kind, const char *entry,
                             const char *value)
{
    if (value == NULL && kind->form != NULL && kind->value == NULL)
        return fail_entry(entry, "lacks a value after its colon");
    if (value != NULL && kind->form == NULL)
        return fail_entry(entry, "takes no value");
    if (value != NULL && value[0] == '\0')
        return fail_entry(entry, "must have no value after its colon");
    if (value != NULL && kind->web == &rg__site_url && !rg__web_is_url(value))
        return fail_entry(entry, "names no URL that begins with http:// or "
                                 "https://");
    if (value != NULL && strcmp(kind->form, "PATH") == 0 && value[0] != '/')
        return fail_entry(entry, "names a path that does not begin with /");
    return RG_OK;
}

typedef rg_status (*entry_fn)(void *arg, const rg__source_kind *kind,
                              const char *value);

static rg_status each_kind(const char *entry, size_t n, const char *value,
                           entry_fn fn, void *arg)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strlen(kinds[i].name) != n || strncmp(kinds[i].name, entry, n) != 0)
            continue;
        rg_status st = check_value(&kinds[i], entry, value);
        if (st == RG_OK)
            st = fn(arg, &kinds[i], value);
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

/* "auto" is no source: fn gets NULL in its place. */
static rg_status take_entry(const char *entry, entry_fn fn, void *arg)
{
    const size_t n = name_at(entry);
    const char *value = entry[n] == ':' ? entry + n + 1 : NULL;
    if (n == 0 || (value == NULL && entry[n] != '\0'))
        return fail_entry(entry, "names no source");
    if (strcmp(entry, "none") == 0)
        return fail_entry(entry, "can't be combined with other sources");
    if (strcmp(entry, "auto") == 0)
        return fn(arg, NULL, NULL);
    return each_kind(entry, n, value, fn, arg);
}

static rg_status each_entry(const char *list, entry_fn fn, void *arg)
{
    rg_status st = RG_OK;
    if (strcmp(list, "none") == 0)
        return RG_OK;
    while (st == RG_OK) {
        const char *end = end_of_entry(list);
        char *entry = strndup(list, (size_t)(end - list));
        if (entry == NULL)
            return rg__fail(RG_ERR_MEMORY, "no memory for --notice");
        st = take_entry(entry, fn, arg);
        free(entry);
        if (*end == '\0')
            return st;
        list = end + 1;
    }
    return st;
}

static rg_status accept_any(void *arg, const rg__source_kind *kind,
                            const char *value)
{
    (void)arg, (void)kind, (void)value;
    return RG_OK;
}

rg_status rg__notices_check(const char *list, const char *base)
{
    const size_t n = base != NULL ? strlen(base) : 0;
    if (base != NULL && (!rg__web_is_url(base) || n > RG__NOTICE_BASE_MAX ||
                         base[n - 1] == '/'))
        return rg__fail(RG_ERR_INVALID,
                        "--notice-base is \"%.100s\"; it is a URL without a "
                        "path, as http://169.254.169.254",
                        base);
    return each_entry(list, accept_any, NULL);
}

/* -------------------------------------------------------------------- life */

static bool is_there(const rg__notices *all, const rg__source_kind *kind,
                     const char *value)
{
    for (int i = 0; i < all->count; i++)
        if (all->source[i]->kind == kind &&
            (value == NULL || strcmp(all->source[i]->value, value) == 0))
            return true;
    return false;
}

static void free_source(rg__source *s)
{
    if (s == NULL)
        return;
    if (s->kind->stop != NULL)
        s->kind->stop(s);
    if (s->kind->close != NULL)
        s->kind->close(s);
    rg__timer_destroy(s->timer);
    free(s->value);
    free(s);
}

static rg__source *make_source(rg__notices *all, const rg__source_kind *kind,
                               const char *value)
{
    rg__source *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    *s = (rg__source){.all = all, .kind = kind};
    s->timer = rg__timer_create(all->loop, rg__source_on_timer, s);
    s->value = value != NULL ? strdup(value) : NULL;
    if (s->timer == NULL || (value != NULL && s->value == NULL)) {
        free_source(s);
        return NULL;
    }
    return s;
}

static rg_status open_web(rg__notices *all, const rg__source_kind *kind)
{
    return kind->web == NULL || all->http != NULL
               ? RG_OK
               : rg__http_create(all->loop, NULL, &all->http);
}

static rg_status add_source(void *arg, const rg__source_kind *kind,
                            const char *value);

static rg_status add_named(rg__notices *all, const char *name)
{
    return each_kind(name, strlen(name), NULL, add_source, all);
}

/* The cloud of this machine, and Kubernetes as well. */
static rg_status add_auto(rg__notices *all)
{
    const char *cloud = rg__dmi_cloud(all->dmi);
    rg_status st = RG_OK;
    if (cloud != NULL)
        st = add_named(all, cloud);
    if (st == RG_OK && getenv("KUBERNETES_SERVICE_HOST") != NULL)
        st = add_named(all, "kubernetes");
    return st;
}

static rg_status add_source(void *arg, const rg__source_kind *kind,
                            const char *value)
{
    rg__notices *all = arg;
    if (kind == NULL)
        return add_auto(all);
    if (value == NULL)
        value = kind->value;
    if (is_there(all, kind, value))
        return RG_OK;
    if (all->count == RG__NOTICE_SOURCES)
        return rg__fail(RG_ERR_INVALID, "--notice names more than %d sources",
                        RG__NOTICE_SOURCES);
    const rg_status st = open_web(all, kind);
    if (st != RG_OK)
        return st;
    rg__source *s = make_source(all, kind, value);
    if (s == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for notices");
    all->source[all->count++] = s;
    rg__timer_set(s->timer, 0);
    return RG_OK;
}

rg_status rg__notices_create(rg__loop *loop, const rg__notices_params *params,
                             rg__notices **notices_p)
{
    rg__notices *all = calloc(1, sizeof *all);
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for notices");
    all->loop = loop;
    all->base = params->base != NULL ? strdup(params->base) : NULL;
    all->dmi = params->dmi;
    all->every_ms = params->every_ms;
    all->changed = params->changed;
    all->arg = params->arg;
    const rg_status st = each_entry(params->list, add_source, all);
    if (st != RG_OK) {
        rg__notices_destroy(all);
        return st;
    }
    *notices_p = all;
    return RG_OK;
}

void rg__notices_destroy(rg__notices *all)
{
    if (all == NULL)
        return;
    for (int i = 0; i < all->count; i++)
        free_source(all->source[i]);
    rg__http_destroy(all->http);
    free(all->base);
    free(all);
}

/* ----------------------------------------------------------- what they say */

int rg__notices_count(const rg__notices *all)
{
    return all != NULL ? all->count : 0;
}

rg__source_view rg__notices_at(const rg__notices *all, int i)
{
    const rg__source *s = all->source[i];
    return (rg__source_view){.name = s->kind->name,
                             .asks = rg__source_asks(s),
                             .state = s->state,
                             .why = s->why,
                             .notice = &s->notice,
                             .seen_ns = s->seen_ns};
}

bool rg__notices_have(const rg__notices *all, const char *name)
{
    for (int i = 0; i < rg__notices_count(all); i++)
        if (strcmp(all->source[i]->kind->name, name) == 0)
            return true;
    return false;
}

bool rg__notices_acknowledge(rg__notices *all)
{
    bool is_waiting = false;
    for (int i = 0; i < rg__notices_count(all); i++) {
        rg__source *s = all->source[i];
        if (!s->has_told)
            rg__web_tell(s);
        is_waiting |= s->has_told && !s->is_told;
    }
    return is_waiting;
}
