/* A watch over the gateway: an answer without an end, one JSON per line.
 *
 * What the server does without documenting it, and what is done about it: it
 * never answers a request that it didn't understand (a time-out for "created");
 * it leaves a canceled watch's connection open (closed here); its last error
 * has no newline (the rest is read at the end); it cuts large revisions into
 * fragments (kept until the last has come). A cancel can't be sent, because
 * HTTP/1.1 isn't full duplex here: closing the connection is one. */
#include "elastic/etcd/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elastic/etcd/body.h"
#include "elastic/etcd/lines.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define LINE_BYTES_MAX (64u << 20)

struct rg__watch {
    rg__etcd *etcd;
    int endpoint;
    char *token;
    const rg__watch_fns *fns;
    void *arg;
    rg__transfer *transfer;
    rg__timer *patience; /* for "created" */
    rg__lines lines;
    json_t *fragments; /* events of a revision that isn't whole yet */
    bool is_created;
};

void rg__watch_close(rg__watch *watch)
{
    if (watch == NULL)
        return;
    rg__http_cancel(watch->transfer);
    rg__timer_destroy(watch->patience);
    rg__lines_close(&watch->lines);
    json_decref(watch->fragments);
    free(watch->token);
    free(watch);
}

static void end_watch(rg__watch *watch, rg__watch_end end, const char *text)
{
    const rg__watch_fns *fns = watch->fns;
    void *arg = watch->arg;
    char why[RG__ETCD_WHY_MAX];
    snprintf(why, sizeof why, "%s", text); /* it may lie in the watch */
    if (end == RG__WATCH_RESUME)
        rg__etcd_failed(watch->etcd, watch->endpoint, why);
    rg__watch_close(watch);
    fns->end(arg, end, why);
}

/* ---------------------------------------------------------------- messages */

static void refuse_token(rg__watch *watch, int code, const char *why)
{
    if (rg__etcd_is_about_token(code, why))
        rg__etcd_drop_token(watch->etcd, watch->token);
}

static void take_fault(rg__watch *watch, const rg__json_fault *fault)
{
    const int code = (int)fault->http_code;
    refuse_token(watch, code, fault->message);
    const bool may_pass = code == 408 || code == 429 || code >= 500;
    end_watch(watch, may_pass ? RG__WATCH_RESUME : RG__WATCH_RELIST,
              fault->message);
}

static void take_cancel(rg__watch *watch, const rg__watch_message *message)
{
    refuse_token(watch, 200, message->cancel_reason);
    end_watch(watch, RG__WATCH_RELIST,
              message->compact_revision > 0    ? "compacted"
              : message->cancel_reason[0] != 0 ? message->cancel_reason
                                               : "canceled");
}

/* Append to what has come of this revision; false: no memory. */
static bool keep_fragment(rg__watch *watch, json_t *events)
{
    if (watch->fragments == NULL)
        watch->fragments = json_array();
    return watch->fragments != NULL &&
           (events == NULL || json_array_extend(watch->fragments, events) == 0);
}

static bool take_events(rg__watch *watch, const rg__watch_message *message)
{
    if (!message->is_fragment && watch->fragments == NULL)
        return message->events == NULL ||
               watch->fns->events(watch->arg, message->events);
    if (!keep_fragment(watch, message->events))
        return false;
    if (message->is_fragment)
        return true;
    const bool ok = watch->fns->events(watch->arg, watch->fragments);
    json_decref(watch->fragments);
    watch->fragments = NULL;
    return ok;
}

static void take_created(rg__watch *watch, int64_t revision)
{
    watch->is_created = true;
    rg__timer_stop(watch->patience);
    watch->fns->created(watch->arg, revision);
}

/* false: the watch has ended, and is gone. */
static bool take_message(rg__watch *watch, const json_t *line)
{
    rg__watch_message message;
    if (!rg__watch_read(line, &message)) {
        end_watch(watch, RG__WATCH_RELIST, "a watch's message can't be read");
        return false;
    }
    if (message.fault.message != NULL) {
        take_fault(watch, &message.fault);
        return false;
    }
    if (message.is_canceled) { /* together with created, too */
        take_cancel(watch, &message);
        return false;
    }
    if (message.is_created)
        take_created(watch, message.revision);
    if (take_events(watch, &message))
        return true;
    end_watch(watch, RG__WATCH_RELIST, "a watch's events can't be read");
    return false;
}

static bool take_line(rg__watch *watch, const char *text, size_t n)
{
    json_t *line = rg__json_parse(text, n);
    if (line == NULL) {
        end_watch(watch, RG__WATCH_RELIST, "a watch's line is not JSON");
        return false;
    }
    const bool goes_on = take_message(watch, line);
    json_decref(line);
    return goes_on;
}

/* -------------------------------------------------------------- connection */

static void on_data(void *arg, const char *bytes, size_t n)
{
    rg__watch *watch = arg;
    const char *line = NULL;
    size_t line_bytes = 0;
    if (rg__lines_add(&watch->lines, bytes, n) != RG_OK) {
        end_watch(watch, RG__WATCH_RELIST, rg_last_error());
        return;
    }
    while (rg__lines_next(&watch->lines, &line, &line_bytes))
        if (!take_line(watch, line, line_bytes))
            return;
    if (watch->is_created)
        rg__etcd_answered(watch->etcd);
    watch->fns->pause(watch->arg);
}

static void on_done(void *arg, const rg__http_result *result)
{
    rg__watch *watch = arg;
    const char *line = NULL;
    size_t n = 0;
    watch->transfer = NULL;
    if (result->code == 0) { /* cut: the rest is half a line */
        end_watch(watch, RG__WATCH_RESUME, result->why);
        return;
    }
    if (rg__lines_rest(&watch->lines, &line, &n) && !take_line(watch, line, n))
        return;
    if (result->code == 200)
        end_watch(watch, RG__WATCH_RESUME, "a watch was closed by etcd");
    else
        end_watch(watch, RG__WATCH_RELIST, "a watch is refused");
}

static void on_no_patience(void *arg)
{
    end_watch(arg, RG__WATCH_RESUME, "a watch is not answered");
}

/* ---------------------------------------------------------- open and close */

static char *watch_text(const char *key, const char *range_end, int64_t start)
{
    rg__body body = {0};
    rg__body_add(&body, "{\"create_request\":{");
    rg__body_range(&body, key, range_end);
    rg__body_addf(&body, ",\"start_revision\":\"%" PRId64 "\"", start);
    rg__body_add(&body, ",\"fragment\":true}}");
    return rg__body_take(&body);
}

static rg_status start_watch(rg__watch *watch, const char *text)
{
    static const rg__http_fns fns = {.data = on_data, .done = on_done};
    char url[RG__ETCD_URL_MAX];
    if (text == NULL || watch->patience == NULL ||
        (watch->etcd->token != NULL && watch->token == NULL))
        return rg__fail(RG_ERR_MEMORY, "no memory for a watch");
    const char *endpoint = watch->etcd->endpoints[watch->endpoint];
    rg__etcd_url(endpoint, "/v3/watch", url);
    const int ms =
        rg__etcd_limit_ms(watch->etcd, RG__ETCD_UNARY_MS, RG__ETCD_SLOW_MS);
    rg__timer_set(watch->patience, (uint64_t)ms * RG__MS);
    return rg__http_post(watch->etcd->http, url, rg__etcd_socket(endpoint),
                         text, watch->token, 0, &fns, watch, &watch->transfer);
}

rg_status rg__watch_open(rg__etcd *etcd, int endpoint, const char *key,
                         const char *range_end, int64_t start_revision,
                         const rg__watch_fns *fns, void *arg,
                         rg__watch **watch_p)
{
    rg__watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a watch");
    watch->etcd = etcd;
    watch->endpoint = endpoint;
    watch->fns = fns;
    watch->arg = arg;
    watch->token = etcd->token != NULL ? strdup(etcd->token) : NULL;
    watch->patience = rg__timer_create(etcd->loop, on_no_patience, watch);
    rg__lines_open(&watch->lines, LINE_BYTES_MAX);
    char *text = watch_text(key, range_end, start_revision);
    const rg_status st = start_watch(watch, text);
    free(text);
    if (st != RG_OK) {
        rg__watch_close(watch);
        return st;
    }
    *watch_p = watch;
    return RG_OK;
}
