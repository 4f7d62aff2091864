/* Compute Engine: the metadata server. The first request gets a value and its
 * ETag at once; each later one waits there until the value changes, or for a
 * minute.
 *
 *   GET /computeMetadata/v1/instance/preempted           FALSE, TRUE
 *   GET /computeMetadata/v1/instance/maintenance-event   NONE,
 *       MIGRATE_ON_HOST_MAINTENANCE, TERMINATE_ON_HOST_MAINTENANCE */
#include "elastic/notice/notice_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define BASE          "http://169.254.169.254"
#define VALUES        "/computeMetadata/v1/instance/"
#define ANSWER_MS     2000
#define WAIT_S        60
#define PREEMPTED_MS  30000 /* from the notice to the end of the machine */
#define MAINTAINED_MS 60000

static void write_request(const rg__source *s, rg__web_request *r)
{
    const char *name = s->kind->web->path;
    r->method = "GET";
    snprintf(r->header[0], sizeof r->header[0], "Metadata-Flavor: Google");
    if (s->etag[0] == '\0') {
        snprintf(r->path, sizeof r->path, VALUES "%s", name);
        r->timeout_ms = ANSWER_MS;
    } else {
        snprintf(r->path, sizeof r->path,
                 VALUES "%s?wait_for_change=true&timeout_sec=%d&last_etag=%s",
                 name, WAIT_S, s->etag);
        r->timeout_ms = WAIT_S * 1000 + ANSWER_MS;
    }
}

/* It goes into a URL. */
static bool is_etag(const char *text)
{
    for (const char *c = text; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("-_.", *c) == NULL)
            return false;
    return text[0] != '\0' && strlen(text) < sizeof((rg__source *)0)->etag;
}

static rg__web_step take(rg__source *s, const rg__http_result *r, rg__notice *n)
{
    if (r->code != 200)
        return rg__web_fails(s, "it answers with HTTP %d", r->code);
    if (!s->kind->web->read(r->body, r->body_bytes, n))
        return rg__web_fails(s, "its answer is not what Compute Engine says");
    snprintf(s->etag, sizeof s->etag, "%s", is_etag(r->etag) ? r->etag : "");
    return WEB_SAYS;
}

/* With or without a newline after it. */
static bool is_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    return strncmp(text, word, n) == 0 &&
           text[n + strspn(text + n, "\r\n")] == '\0';
}

/* --------------------------------------------------------------- preempted */

bool rg__gcp_read_preempted(const char *text, size_t bytes, rg__notice *n)
{
    (void)bytes;
    *n = (rg__notice){.kind = RG__NOTICE_NONE};
    if (!is_word(text, "TRUE"))
        return is_word(text, "FALSE");
    n->kind = RG__NOTICE_LEAVE;
    n->in_ms = PREEMPTED_MS;
    rg__notice_say(n, "the instance is being preempted");
    return true;
}

const rg__web rg__gcp_preempted = {.base = BASE,
                                   .path = "preempted",
                                   .read = rg__gcp_read_preempted,
                                   .write = write_request,
                                   .take = take};

/* ------------------------------------------------------------- maintenance */

bool rg__gcp_read_maintenance(const char *text, size_t bytes, rg__notice *n)
{
    (void)bytes;
    *n = (rg__notice){.kind = RG__NOTICE_NONE};
    if (is_word(text, "NONE"))
        return true;
    n->in_ms = MAINTAINED_MS;
    if (is_word(text, "MIGRATE_ON_HOST_MAINTENANCE")) {
        n->kind = RG__NOTICE_ADVICE;
        rg__notice_say(n, "the instance will be migrated to another machine");
        return true;
    }
    n->kind = RG__NOTICE_LEAVE;
    rg__notice_say(n, "the instance will be stopped for maintenance");
    return is_word(text, "TERMINATE_ON_HOST_MAINTENANCE");
}

const rg__web rg__gcp_maintenance = {.base = BASE,
                                     .path = "maintenance-event",
                                     .read = rg__gcp_read_maintenance,
                                     .write = write_request,
                                     .take = take};
