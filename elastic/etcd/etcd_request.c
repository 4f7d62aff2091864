/* One request, sent until it is answered.
 *
 *            no token yet                    401: login, once
 *   post ──> WAITING ──> SENT ──────────────> WAITING
 *                         │ ^ \
 *     transport, 408, 429,│ │  200, 4xx: done
 *     5xx, unreadable     v │
 *                       PAUSED (full jitter, next endpoint)
 *
 * After a timeout the request may still be applied, even seconds later, so
 * "unknown" is not "failed": the same text goes out again and its guards
 * decide. done is the last thing that happens to a request; the client may be
 * destroyed in it. */
#include "elastic/etcd/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define BACKOFF_FIRST_MS 20
#define BACKOFF_MAX_MS   1000

#define FIRST_MS 400 /* of a sending, while others are unasked yet */

#define LEASE_WAIT_NS (100 * RG__MS)

typedef enum stage { WAITING, SENT, PAUSED, REFUSED } stage;

struct rg__etcd_req {
    rg__etcd_req *next;
    rg__etcd *etcd;
    const rg__call *call;
    void *arg;
    char *body;
    stage stage;
    int avoid, endpoint; /* to ask last; being asked */
    int failures;        /* in a row */
    int sendings;
    int limit_ms, doublings; /* of this sending; of the limits then */
    uint64_t sent_ns;
    bool has_renewed; /* the token, since it was last taken */
    bool is_refused;  /* by an etcd that takes no writes, the last time */
    bool is_over;     /* done is running */
    char *token;      /* that it was sent with */
    char *refusal;    /* why it is REFUSED */
    rg__transfer *transfer;
    rg__timer *timer; /* end of PAUSED and REFUSED */
};

/* ------------------------------------------------------------------ jitter */

uint64_t rg__random(void)
{
    uint64_t bits = 0;
    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        bits = rg__now_ns(); /* only if the system call is missing */
    return bits;
}

bool rg__answer_says(const rg__answer *answer, const char *words)
{
    return strstr(answer->message, words) != NULL;
}

uint64_t rg__etcd_backoff_ns(int failures)
{
    const int doublings = failures < 6 ? failures : 6;
    const uint64_t ms = (uint64_t)BACKOFF_FIRST_MS << doublings;
    const uint64_t bound = (ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS) * RG__MS;
    return rg__random() % bound;
}

/* ---------------------------------------------------------------- the list */

static void add_to_list(rg__etcd_req *req)
{
    rg__chain_append(&req->etcd->reqs, req);
    rg__etcd_asked(req->etcd);
}

static void take_out(rg__etcd_req *req)
{
    rg__chain_remove(&req->etcd->reqs, req);
    if (req->etcd->reqs == NULL)
        rg__etcd_idle(req->etcd);
}

static void free_req(rg__etcd_req *req)
{
    if (req == NULL)
        return;
    rg__timer_destroy(req->timer);
    free(req->body);
    free(req->token);
    free(req->refusal);
    free(req);
}

void rg__etcd_cancel(rg__etcd_req *req)
{
    if (req == NULL || req->is_over)
        return;
    rg__http_cancel(req->transfer);
    take_out(req);
    if (req->call->drop != NULL)
        req->call->drop(req->arg);
    free_req(req);
}

bool rg__etcd_has_refused(const rg__etcd *etcd)
{
    const rg__etcd_req *req = etcd->reqs;
    while (req != NULL && !req->is_refused)
        req = req->next;
    return req != NULL;
}

bool rg__etcd_keep_goodbyes(rg__etcd *etcd)
{
    rg__etcd_req *next = NULL;
    for (rg__etcd_req *req = etcd->reqs; req != NULL; req = next) {
        next = req->next;
        if (!req->call->is_goodbye)
            rg__etcd_cancel(req);
    }
    return etcd->reqs != NULL;
}

/* After so many failures, is there an endpoint that was not asked yet? */
static bool has_others(const rg__etcd_req *req, int failures)
{
    return failures < req->etcd->endpoint_count &&
           req->etcd->endpoint_count > 1;
}

/* ---------------------------------------------------------------- outcomes */

static void finish(rg__etcd_req *req, rg_status st, const rg__answer *answer)
{
    take_out(req);
    if (req->is_refused)
        rg__etcd_taken(req->etcd);
    req->is_over = true;
    req->call->done(req->arg, st, answer);
    free_req(req);
}

static void send_later(rg__etcd_req *req)
{
    req->stage = PAUSED;
    rg__timer_set(req->timer, rg__etcd_backoff_ns(req->failures));
    req->failures++;
    req->has_renewed = false;
}

static void pause_req(rg__etcd_req *req, const char *why)
{
    rg__etcd_failed(req->etcd, req->endpoint, why);
    send_later(req);
}

static void refuse(rg__etcd_req *req, int code, const char *message)
{
    const rg__answer answer = {
        .code = code, .message = message, .sendings = req->sendings};
    const bool wants_user =
        req->etcd->user == NULL && rg__etcd_is_about_token(code, message);
    const rg_status st = rg__fail(
        RG_ERR_STORE, "etcd at %s refuses %s: %s (%d)%s",
        req->etcd->endpoints[req->endpoint], req->call->path, message, code,
        wants_user ? "; name a user and its password (--etcd-user, "
                     "--etcd-password-file)"
                   : "");
    finish(req, st, &answer);
}

static void renew_token(rg__etcd_req *req, int code, const char *message)
{
    if (req->has_renewed || req->call->is_login || req->etcd->user == NULL) {
        refuse(req, code, message);
        return;
    }
    req->has_renewed = true;
    rg__etcd_drop_token(req->etcd, req->token);
    req->stage = WAITING;
    rg__timer_set(req->timer, 0); /* sends it, or logs in first */
}

static bool is_unknown(int code)
{
    return code == 408 || code == 429 || code >= 500;
}

/* etcd is up and can be read, but takes no writes: it is full (alarm NOSPACE),
 * distrusts its data (alarm CORRUPT), or is behind with applying. */
static bool is_about_writes(int code, const char *message)
{
    return code == 429 || strstr(message, "corrupt cluster") != NULL;
}

/* A lease that has expired is granted again under the same id as soon as
 * lease.c notices, so what was to be put under it waits. */
static bool is_about_lost_lease(const rg__etcd_req *req, const char *message)
{
    return strcmp(req->call->path, "/v3/kv/txn") == 0 &&
           strstr(message, "requested lease not found") != NULL;
}

static void wait_for_lease(rg__etcd_req *req)
{
    rg__etcd_answered(req->etcd);
    req->stage = PAUSED;
    rg__timer_set(req->timer, LEASE_WAIT_NS);
}

static void take_fault(rg__etcd_req *req, int code, const char *message)
{
    if (is_about_lost_lease(req, message)) {
        wait_for_lease(req);
        return;
    }
    req->is_refused = is_about_writes(code, message);
    if (req->is_refused) {
        rg__etcd_refused(req->etcd, req->endpoint, message);
        send_later(req);
        return;
    }
    if (is_unknown(code)) {
        pause_req(req, message);
        return;
    }
    rg__etcd_answered(req->etcd);
    if (rg__etcd_is_about_token(code, message))
        renew_token(req, code, message);
    else
        refuse(req, code, message);
}

static void take_reply(rg__etcd_req *req, const json_t *reply)
{
    if (!req->call->read(req->arg, reply)) {
        pause_req(req, "its reply can't be read");
        return;
    }
    const rg__answer answer = {
        .code = 200, .message = "", .sendings = req->sendings};
    rg__etcd_answered(req->etcd);
    finish(req, RG_OK, &answer);
}

static void take_json(rg__etcd_req *req, int http_code, const json_t *reply)
{
    rg__json_fault fault;
    if (!rg__json_fault_read(reply, &fault)) {
        pause_req(req, "its error can't be read");
        return;
    }
    const int code = fault.http_code > 0 ? (int)fault.http_code : http_code;
    if (fault.message != NULL && code == 200)
        pause_req(req, fault.message); /* an error that has no code */
    else if (fault.message != NULL)
        take_fault(req, code, fault.message);
    else if (code == 200)
        take_reply(req, reply);
    else
        take_fault(req, code, "an answer without a cause");
}

/* etcd's own refusals come as JSON; what doesn't is from the HTTP server in
 * front of it, or from something else that listens there. */
static void take_text(rg__etcd_req *req, const rg__http_result *result)
{
    static const struct {
        const char *said, *meant;
    } known[] = {
        {"CommonName of client",
         "with passwords it takes no client certificate that has a CommonName; "
         "make one without (--etcd-cert)"},
        {"HTTP request to an HTTPS server", "it wants TLS; write https://"},
        {"", "an answer that is not JSON; is it etcd 3.4 or later?"}};
    size_t i = 0;
    while (strstr(result->body, known[i].said) == NULL)
        i++;
    take_fault(req, result->code, known[i].meant);
}

/* An endpoint that takes no connection is away, not slow. */
static void judge_speed(const rg__etcd_req *req, const rg__http_result *result)
{
    const uint64_t took_ms = (rg__now_ns() - req->sent_ns) / RG__MS;
    if (result->is_slow && !has_others(req, req->failures + 1))
        rg__etcd_was_slow(req->etcd, req->doublings);
    else if (result->code == 200 && took_ms < (uint64_t)req->limit_ms / 4)
        rg__etcd_was_quick(req->etcd, req->doublings);
}

static void on_done(void *arg, const rg__http_result *result)
{
    rg__etcd_req *req = arg;
    req->transfer = NULL;
    req->sendings += result->sendings;
    judge_speed(req, result);
    if (result->code == 0 && result->is_late)
        rg__etcd_late(req->etcd, req->endpoint, result->why);
    else if (result->code == 0)
        rg__etcd_failed(req->etcd, req->endpoint, result->why);
    if (result->code == 0) {
        send_later(req);
        return;
    }
    json_t *reply = rg__json_parse(result->body, result->body_bytes);
    if (reply != NULL)
        take_json(req, result->code, reply);
    else if (result->code == 200)
        pause_req(req, "its reply is not JSON");
    else
        take_text(req, result);
    json_decref(reply);
}

/* ----------------------------------------------------------------- sending */

static int choose_endpoint(const rg__etcd_req *req)
{
    const rg__etcd *etcd = req->etcd;
    if (req->avoid < 0)
        return etcd->endpoint;
    return (req->avoid + 1 + req->failures) % etcd->endpoint_count;
}

static rg_status remember_token(rg__etcd_req *req)
{
    const char *token = req->call->is_login ? NULL : req->etcd->token;
    free(req->token);
    req->token = token != NULL ? strdup(token) : NULL;
    if (token != NULL && req->token == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a token");
    return RG_OK;
}

/* A silent member does not get the whole time while there are others to ask; a
 * slow one gets it once the others have been asked too. */
static int sending_ms(const rg__etcd_req *req)
{
    const int ms = req->call->timeout_ms;
    const bool is_quick = ms <= RG__ETCD_UNARY_MS && ms > FIRST_MS;
    return rg__etcd_limit_ms(
        req->etcd, is_quick && has_others(req, req->failures) ? FIRST_MS : ms,
        req->call->slow_ms);
}

static void send_now(rg__etcd_req *req)
{
    static const rg__http_fns fns = {.done = on_done};
    rg__etcd *etcd = req->etcd;
    char url[RG__ETCD_URL_MAX];
    req->endpoint = choose_endpoint(req);
    req->stage = SENT;
    req->limit_ms = sending_ms(req);
    req->doublings = etcd->doublings;
    req->sent_ns = rg__now_ns();
    const char *endpoint = etcd->endpoints[req->endpoint];
    rg__etcd_url(endpoint, req->call->path, url);
    rg_status st = remember_token(req);
    if (st == RG_OK)
        st =
            rg__http_post(etcd->http, url, rg__etcd_socket(endpoint), req->body,
                          req->token, req->limit_ms, &fns, req, &req->transfer);
    if (st != RG_OK)
        pause_req(req, rg_last_error());
}

static void send_or_login(rg__etcd_req *req)
{
    if (req->call->is_login || rg__etcd_may_send(req->etcd)) {
        send_now(req);
        return;
    }
    req->stage = WAITING;
    if (rg__etcd_login(req->etcd) != RG_OK)
        pause_req(req, rg_last_error());
}

static void on_timer(void *arg)
{
    rg__etcd_req *req = arg;
    if (req->stage == REFUSED) {
        const rg__answer answer = {
            .code = 400, .message = req->refusal, .sendings = req->sendings};
        finish(req, rg__fail(RG_ERR_STORE, "%s", req->refusal), &answer);
        return;
    }
    send_or_login(req);
}

void rg__etcd_hurry_requests(rg__etcd *etcd)
{
    for (rg__etcd_req *req = etcd->reqs; req != NULL; req = req->next)
        if (req->stage == PAUSED)
            rg__timer_set(req->timer, 0);
}

void rg__etcd_send_waiting(rg__etcd *etcd)
{
    for (rg__etcd_req *req = etcd->reqs; req != NULL; req = req->next)
        if (req->stage == WAITING)
            rg__timer_set(req->timer, 0);
}

void rg__etcd_fail_waiting(rg__etcd *etcd, const char *why)
{
    for (rg__etcd_req *req = etcd->reqs; req != NULL; req = req->next) {
        if (req->stage != WAITING || req->call->is_login)
            continue;
        req->refusal = strdup(why);
        req->stage = req->refusal != NULL ? REFUSED : PAUSED;
        rg__timer_set(req->timer, 0);
    }
}

rg__etcd_req *rg__etcd_post(rg__etcd *etcd, const rg__call *call, char *body,
                            int avoid, void *arg)
{
    rg__etcd_req *req = calloc(1, sizeof *req);
    if (req != NULL)
        req->timer = rg__timer_create(etcd->loop, on_timer, req);
    if (body == NULL || req == NULL || req->timer == NULL) {
        rg__fail(RG_ERR_MEMORY, "no memory to ask etcd for %s", call->path);
        free(body);
        free_req(req);
        return NULL;
    }
    req->etcd = etcd;
    req->call = call;
    req->arg = arg;
    req->body = body;
    req->avoid = avoid;
    add_to_list(req);
    send_or_login(req);
    return req;
}
