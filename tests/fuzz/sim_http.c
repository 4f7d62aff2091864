/* elastic/etcd/http.h without a network: requests lie in a list until the
 * fuzzer answers them. What a stream brings reaches its owner at once. */
#include <string.h>

#include "elastic/etcd/http.h"
#include "tests/fuzz/sim.h"

struct rg__transfer {
    rg__transfer *next;
    rg__http *http;
    uint64_t number;
    char *path, *body;
    const rg__http_fns *fns;
    void *arg;
};

struct rg__http {
    bool is_open;
};

static rg__transfer *transfers; /* of all, in the order of their start */
static uint64_t started;

rg_status rg__http_create(rg__loop *loop, const rg__http_tls *tls,
                          rg__http **http_p)
{
    (void)loop, (void)tls;
    *http_p = calloc(1, sizeof **http_p);
    return *http_p != NULL ? RG_OK : RG_ERR_MEMORY;
}

static void take_out(rg__transfer *t)
{
    rg__transfer **at = &transfers;
    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
}

static void free_transfer(rg__transfer *t)
{
    free(t->path);
    free(t->body);
    free(t);
}

void rg__http_cancel(rg__transfer *transfer)
{
    if (transfer == NULL)
        return;
    take_out(transfer);
    free_transfer(transfer);
}

void rg__http_destroy(rg__http *http)
{
    if (http == NULL)
        return;
    for (rg__transfer **at = &transfers; *at != NULL;) {
        rg__transfer *t = *at;
        if (t->http != http) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        free_transfer(t);
    }
    free(http);
}

static rg_status start(rg__http *http, const char *path, const char *body,
                       const rg__http_fns *fns, void *arg,
                       rg__transfer **transfer_p)
{
    rg__transfer *t = calloc(1, sizeof *t);
    FUZZ_CLAIM(t != NULL);
    *t = (rg__transfer){.http = http,
                        .number = ++started,
                        .path = strdup(path),
                        .body = strdup(body),
                        .fns = fns,
                        .arg = arg};
    rg__transfer **at = &transfers;
    while (*at != NULL)
        at = &(*at)->next;
    *at = t;
    *transfer_p = t;
    return RG_OK;
}

rg_status rg__http_post(rg__http *http, const char *url, const char *socket,
                        const char *body, const char *token, int timeout_ms,
                        const rg__http_fns *fns, void *arg,
                        rg__transfer **transfer_p)
{
    (void)token, (void)socket;
    FUZZ_CLAIM(timeout_ms >= 0 && strncmp(url, "http", 4) == 0);
    const char *path = strstr(url, "/v3/");
    return start(http, path != NULL ? path : "", body, fns, arg, transfer_p);
}

rg_status rg__http_send(rg__http *http, const rg__http_request *r,
                        const rg__http_fns *fns, void *arg,
                        rg__transfer **transfer_p)
{
    FUZZ_CLAIM(r->timeout_ms > 0 && r->body_max > 0);
    return start(http, r->url, r->body != NULL ? r->body : "", fns, arg,
                 transfer_p);
}

void rg__http_drain(rg__http *http, int timeout_ms)
{
    (void)http, (void)timeout_ms;
}

/* ----------------------------------------------------------- for the fuzzer */

static bool is_kind(const rg__transfer *t, sim_kind kind)
{
    return (t->fns->data != NULL) == (kind == SIM_STREAM);
}

static rg__transfer *first_from(rg__transfer *t, sim_kind kind)
{
    while (t != NULL && !is_kind(t, kind))
        t = t->next;
    return t;
}

sim_request *sim_request_first(sim_kind kind)
{
    return first_from(transfers, kind);
}

sim_request *sim_request_next(const sim_request *r, sim_kind kind)
{
    return first_from(r->next, kind);
}

uint64_t sim_request_number(const sim_request *r)
{
    return r->number;
}

sim_request *sim_request_numbered(uint64_t number)
{
    rg__transfer *t = transfers;
    while (t != NULL && t->number != number)
        t = t->next;
    return t;
}

sim_request *sim_request_last(sim_kind kind)
{
    rg__transfer *last = NULL;
    for (rg__transfer *t = transfers; t != NULL; t = t->next)
        if (is_kind(t, kind))
            last = t;
    return last;
}

const char *sim_request_path(const sim_request *r)
{
    return r->path;
}

const char *sim_request_body(const sim_request *r)
{
    return r->body;
}

static void finish(rg__transfer *t, const rg__http_result *result)
{
    take_out(t);
    t->fns->done(t->arg, result);
    free_transfer(t);
}

void sim_answer(sim_request *r, int code, const char *body, size_t n)
{
    char *copy = malloc(n + 1); /* as long as promised: a NUL behind */
    FUZZ_CLAIM(copy != NULL);
    memcpy(copy, body, n);
    copy[n] = '\0';
    const rg__http_result result = {.code = code,
                                    .why = "cut",
                                    .body = copy,
                                    .body_bytes = n,
                                    .etag = copy, /* any text */
                                    .sendings = 1};
    finish(r, &result);
    free(copy);
}

void sim_data(sim_request *r, const char *bytes, size_t n)
{
    char *copy = malloc(n > 0 ? n : 1);
    FUZZ_CLAIM(copy != NULL);
    memcpy(copy, bytes, n);
    r->fns->data(r->arg, copy, n); /* may cancel r */
    free(copy);
}

void sim_break(sim_request *r, const char *why)
{
    const rg__http_result result = {
        .code = 0, .why = why, .body = "", .etag = "", .sendings = 1};
    finish(r, &result);
}
