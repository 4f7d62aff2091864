/* EC2: the instance metadata service, version 2. A round begins with a token,
 * which lasts for hours; 404 means that nothing is announced.
 *
 *   PUT /latest/api/token
 *   GET /latest/meta-data/spot/instance-action
 *       {"action": "terminate", "time": "2026-05-01T10:04:31Z"}
 *   GET /latest/meta-data/events/recommendations/rebalance
 *       {"noticeTime": "2026-05-01T10:04:31Z"} */
#include "elastic/notice/notice_parts.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define BASE        "http://169.254.169.254"
#define ANSWER_MS   2000
#define TOKEN_S     "21600"
#define WARNING_MS  120000 /* EC2's two minutes, if no time is named */
#define UNDER_TOKEN 1      /* the stage of a source that has one */

static void write_request(const rg__source *s, rg__web_request *r)
{
    r->timeout_ms = ANSWER_MS;
    if (s->stage == UNDER_TOKEN) {
        r->method = "GET";
        snprintf(r->path, sizeof r->path, "%s", s->kind->web->path);
        snprintf(r->header[0], sizeof r->header[0],
                 "X-aws-ec2-metadata-token: %s", s->token);
    } else {
        r->method = "PUT";
        snprintf(r->path, sizeof r->path, "/latest/api/token");
        snprintf(r->header[0], sizeof r->header[0],
                 "X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_S);
    }
}

/* It goes into a header. */
static bool is_token(const char *text)
{
    const size_t n = strlen(text);
    if (n == 0 || n >= sizeof((rg__source *)0)->token)
        return false;
    for (; *text != '\0'; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static rg__web_step take_token(rg__source *s, const rg__http_result *r)
{
    if (r->code != 200)
        return rg__web_fails(s,
                             "it gives no token (HTTP %d); is the instance "
                             "metadata service on, and within its hop limit?",
                             r->code);
    if (!is_token(r->body))
        return rg__web_fails(s, "its answer is not a token");
    snprintf(s->token, sizeof s->token, "%s", r->body);
    s->stage = UNDER_TOKEN;
    return WEB_AGAIN;
}

static rg__web_step take(rg__source *s, const rg__http_result *r, rg__notice *n)
{
    if (s->stage != UNDER_TOKEN)
        return take_token(s, r);
    if (r->code == 401) { /* the token's time is up */
        s->stage = 0;
        return WEB_AGAIN;
    }
    if (r->code == 404)
        return WEB_SAYS;
    if (r->code != 200)
        return rg__web_fails(s, "it answers with HTTP %d", r->code);
    if (!s->kind->web->read(r->body, r->body_bytes, n))
        return rg__web_fails(s, "its answer is not what EC2 says");
    return WEB_SAYS;
}

/* ------------------------------------------------------------ interruption */

bool rg__aws_read_action(const char *text, size_t bytes, rg__notice *n)
{
    static const char *const ends[][2] = {{"terminate", "terminated"},
                                          {"stop", "stopped"},
                                          {"hibernate", "hibernated"}};
    json_t *j = json_loadb(text, bytes, 0, NULL);
    const char *action = json_string_value(json_object_get(j, "action"));
    const char *time = json_string_value(json_object_get(j, "time"));
    *n = (rg__notice){.kind = RG__NOTICE_LEAVE, .in_ms = WARNING_MS};
    for (size_t i = 0; action != NULL && i < sizeof ends / sizeof *ends; i++)
        if (strcmp(action, ends[i][0]) == 0)
            rg__notice_say(n, "the spot instance will be %s", ends[i][1]);
    if (action != NULL && n->what[0] == '\0')
        rg__notice_say(n, "the spot instance is interrupted: %s", action);
    const bool ok =
        action != NULL && (time == NULL || rg__time_read(time, &n->at_ms));
    json_decref(j);
    return ok;
}

const rg__web rg__aws_interruption = {
    .base = BASE,
    .path = "/latest/meta-data/spot/instance-action",
    .read = rg__aws_read_action,
    .write = write_request,
    .take = take};

/* --------------------------------------------------------------- rebalance */

bool rg__aws_read_rebalance(const char *text, size_t bytes, rg__notice *n)
{
    json_t *j = json_loadb(text, bytes, 0, NULL);
    const char *time = json_string_value(json_object_get(j, "noticeTime"));
    uint64_t since_ms;
    *n = (rg__notice){.kind = RG__NOTICE_ADVICE};
    const bool ok = time != NULL && rg__time_read(time, &since_ms);
    if (ok)
        rg__notice_say(n,
                       "the spot instance is at an elevated risk of "
                       "interruption since %.40s",
                       time);
    json_decref(j);
    return ok;
}

const rg__web rg__aws_rebalance = {
    .base = BASE,
    .path = "/latest/meta-data/events/recommendations/rebalance",
    .read = rg__aws_read_rebalance,
    .write = write_request,
    .take = take};
