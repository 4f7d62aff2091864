/* Rounds of sources that are asked over HTTP: requests, one after another,
 * until the source says that the round is over. */
#include "elastic/notice/notice_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define REQUESTS_MAX 4 /* of one round */

static rg_status send(rg__source *s, const rg__web_request *r,
                      const rg__http_fns *fns)
{
    const char *base = s->kind->web->base == NULL ? ""
                       : s->all->base != NULL     ? s->all->base
                                                  : s->kind->web->base;
    const char *headers[RG__NOTICE_HEADERS + 1] = {NULL};
    char url[sizeof r->path + RG__NOTICE_BASE_MAX];
    for (int i = 0; i < RG__NOTICE_HEADERS && r->header[i][0] != '\0'; i++)
        headers[i] = r->header[i];
    snprintf(url, sizeof url, "%s%s", base, r->path);
    const rg__http_request request = {.method = r->method,
                                      .url = url,
                                      .headers = headers,
                                      .body =
                                          r->body[0] != '\0' ? r->body : NULL,
                                      .body_max = RG__NOTICE_BODY_MAX,
                                      .timeout_ms = r->timeout_ms};
    return rg__http_send(s->all->http, &request, fns, s, &s->transfer);
}

rg__web_step rg__web_fails(rg__source *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->why, sizeof s->why, format, args);
    va_end(args);
    return WEB_FAILS;
}

static void ask_on(rg__source *s);

static void take(rg__source *s, const rg__http_result *result)
{
    rg__notice notice = {.kind = RG__NOTICE_NONE};
    char why[sizeof s->why];
    rg__web_step step = WEB_FAILS;
    if (result->code == 0)
        rg__web_fails(s, "%s", result->why);
    else
        step = s->kind->web->take(s, result, &notice);
    if (step == WEB_AGAIN && s->requests >= REQUESTS_MAX)
        step = rg__web_fails(s, "it takes over %d requests to answer",
                             REQUESTS_MAX);
    switch (step) {
    case WEB_SAYS:
        rg__source_says(s, &notice);
        break;
    case WEB_AGAIN:
        ask_on(s);
        break;
    case WEB_FAILS:
        s->etag[0] = '\0'; /* don't wait for the next value */
        snprintf(why, sizeof why, "%s", s->why);
        rg__source_fails(s, "%s", why);
    }
}

static void on_done(void *arg, const rg__http_result *result)
{
    rg__source *s = arg;
    s->transfer = NULL;
    take(s, result);
}

static void ask_on(rg__source *s)
{
    static const rg__http_fns fns = {.done = on_done};
    rg__web_request r = {.method = "GET"};
    s->requests++;
    s->kind->web->write(s, &r);
    if (send(s, &r, &fns) != RG_OK)
        rg__source_fails(s, "%s", rg_last_error());
}

void rg__web_ask(rg__source *s)
{
    s->requests = 0;
    ask_on(s);
}

void rg__web_stop(rg__source *s)
{
    rg__http_cancel(s->transfer);
    s->transfer = NULL;
}

/* ------------------------------------------------------------ acknowledging */

static void on_told(void *arg, const rg__http_result *result)
{
    rg__source *s = arg;
    (void)result; /* the host goes either way */
    s->transfer = NULL;
    s->is_told = true;
    s->all->changed(s->all->arg);
}

bool rg__web_tell(rg__source *s)
{
    static const rg__http_fns fns = {.done = on_told};
    rg__web_request r = {.method = "POST"};
    if (s->kind->web == NULL || s->kind->web->acknowledge == NULL ||
        s->notice.kind != RG__NOTICE_LEAVE || s->notice.id[0] == '\0')
        return false;
    rg__timer_stop(s->timer);
    rg__web_stop(s);
    s->kind->web->acknowledge(s, &r);
    s->has_told = send(s, &r, &fns) == RG_OK;
    return s->has_told;
}

bool rg__web_is_url(const char *text)
{
    const char *host = strstr(text, "://");
    return (strncmp(text, "http://", 7) == 0 ||
            strncmp(text, "https://", 8) == 0) &&
           host[3] != '\0' && host[3] != '/' &&
           strlen(text) < sizeof((rg__web_request *)0)->path &&
           strpbrk(text, " \t\r\n") == NULL;
}
