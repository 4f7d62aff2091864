/* url: a server of the site. 204 and 404 mean that nothing is announced, and so
 * do null, false, {} and []; an object is a notice (texts.c). Anything else is
 * a failure: a page of a proxy must not send hosts away. */
#include "elastic/notice/notice_parts.h"

#include <stdio.h>

#define ANSWER_MS 5000

static void write_request(const rg__source *s, rg__web_request *r)
{
    r->method = "GET";
    r->timeout_ms = ANSWER_MS;
    snprintf(r->path, sizeof r->path, "%s", s->value);
    snprintf(r->header[0], sizeof r->header[0], "Accept: application/json");
}

static rg__web_step take(rg__source *s, const rg__http_result *r, rg__notice *n)
{
    if (r->code == 204 || r->code == 404)
        return WEB_SAYS;
    if (r->code != 200)
        return rg__web_fails(s, "it answers with HTTP %d", r->code);
    if (!rg__site_read(r->body, r->body_bytes, n))
        return rg__web_fails(s, "its answer is not a notice in JSON");
    return WEB_SAYS;
}

const rg__web rg__site_url = {.write = write_request, .take = take};
