/* Azure: scheduled events. They go to all machines of a scale set, so a source
 * asks for the name of this one first; an event that names others is ignored.
 * The first answer may take two minutes: Azure turns the service on then. Once
 * this host has left, the event is acknowledged, so that Azure does not wait
 * for its time.
 *
 *   GET  /metadata/instance/compute/name
 *   GET  /metadata/scheduledevents
 *   POST /metadata/scheduledevents   {"StartRequests": [{"EventId": "..."}]} */
#include "elastic/notice/notice_parts.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define BASE   "http://169.254.169.254"
#define EVENTS "/metadata/scheduledevents?api-version=2020-07-01"
#define NAME                                                                   \
    "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
#define ANSWER_MS 5000
#define FIRST_MS  130000
#define SPOT_MS   30000 /* from the notice to the end, if no time is named */
#define NAMED     1     /* the stage of a source that knows this machine */
#define ANSWERED  2

static void write_request(const rg__source *s, rg__web_request *r)
{
    r->method = "GET";
    r->timeout_ms = s->stage == NAMED ? FIRST_MS : ANSWER_MS;
    snprintf(r->header[0], sizeof r->header[0], "Metadata: true");
    snprintf(r->path, sizeof r->path, "%s", s->stage == 0 ? NAME : EVENTS);
}

static void write_acknowledgement(const rg__source *s, rg__web_request *r)
{
    r->method = "POST";
    r->timeout_ms = ANSWER_MS;
    snprintf(r->header[0], sizeof r->header[0], "Metadata: true");
    snprintf(r->header[1], sizeof r->header[1],
             "Content-Type: application/json");
    snprintf(r->path, sizeof r->path, EVENTS);
    snprintf(r->body, sizeof r->body,
             "{\"StartRequests\":[{\"EventId\":\"%s\"}]}", s->notice.id);
}

/* ------------------------------------------------------------------ events */

static const char *text_of(const json_t *j, const char *name)
{
    const char *text = json_string_value(json_object_get(j, name));
    return text != NULL ? text : "";
}

static bool names(const json_t *resources, const char *machine)
{
    for (size_t i = 0; i < json_array_size(resources); i++) {
        const char *name = json_string_value(json_array_get(resources, i));
        if (name != NULL && strcmp(name, machine) == 0)
            return true;
    }
    return false;
}

/* It is sent back inside JSON. */
static void take_id(const char *id, rg__notice *n)
{
    const size_t length = strlen(id);
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)id[i]) && id[i] != '-')
            return;
    if (length < sizeof n->id)
        snprintf(n->id, sizeof n->id, "%s", id);
}

/* What happens to the machine; "": it is only frozen for some seconds. */
static const char *end_of(const char *type)
{
    static const char *const ends[][2] = {{"Preempt", "evicted"},
                                          {"Terminate", "deleted"},
                                          {"Reboot", "rebooted"},
                                          {"Redeploy", "moved"},
                                          {"Freeze", ""}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(type, ends[i][0]) == 0)
            return ends[i][1];
    return "taken away";
}

/* An event of this machine; false: not in Azure's form. */
static bool read_event(const json_t *event, rg__notice *n)
{
    const char *end = end_of(text_of(event, "EventType"));
    const char *before = text_of(event, "NotBefore"); /* "" once it begins */
    const bool is_alone =
        json_array_size(json_object_get(event, "Resources")) == 1;
    *n = (rg__notice){.kind = RG__NOTICE_LEAVE, .in_ms = SPOT_MS};
    if (end[0] == '\0') {
        n->kind = RG__NOTICE_ADVICE;
        rg__notice_say(n, "the machine will be frozen for some seconds");
    } else {
        rg__notice_say(n, "the machine will be %s (%s)", end,
                       text_of(event, "EventType"));
    }
    n->is_wanted = strcmp(text_of(event, "EventSource"), "User") == 0;
    if (is_alone) /* the others of such an event have not left */
        take_id(text_of(event, "EventId"), n);
    return text_of(event, "EventType")[0] != '\0' &&
           (before[0] == '\0' || rg__time_read(before, &n->at_ms));
}

static bool is_more_urgent(const rg__notice *a, const rg__notice *b)
{
    if (a->kind != b->kind)
        return a->kind > b->kind;
    return a->at_ms < b->at_ms; /* 0: it begins now */
}

bool rg__azure_read_events(const char *text, size_t bytes, const char *machine,
                           rg__notice *n)
{
    json_t *j = json_loadb(text, bytes, 0, NULL);
    const json_t *events = json_object_get(j, "Events");
    bool ok = json_is_array(events);
    *n = (rg__notice){.kind = RG__NOTICE_NONE};
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);
        rg__notice one;
        if (!names(json_object_get(event, "Resources"), machine))
            continue;
        if (!read_event(event, &one))
            ok = false;
        else if (is_more_urgent(&one, n))
            *n = one;
    }
    json_decref(j);
    return ok;
}

static rg__web_step take_name(rg__source *s, const rg__http_result *r)
{
    if (r->body[0] == '\0' || strlen(r->body) >= sizeof s->machine)
        return rg__web_fails(s, "it does not name this machine");
    snprintf(s->machine, sizeof s->machine, "%s", r->body);
    s->stage = NAMED;
    return WEB_AGAIN;
}

static rg__web_step take(rg__source *s, const rg__http_result *r, rg__notice *n)
{
    if (r->code != 200)
        return rg__web_fails(s, "it answers with HTTP %d", r->code);
    if (s->stage == 0)
        return take_name(s, r);
    if (!rg__azure_read_events(r->body, r->body_bytes, s->machine, n))
        return rg__web_fails(s, "its answer is not what Azure says");
    s->stage = ANSWERED;
    return WEB_SAYS;
}

const rg__web rg__azure_events = {.base = BASE,
                                  .write = write_request,
                                  .take = take,
                                  .acknowledge = write_acknowledgement};
