/* The client: its endpoints, whether etcd answers, and the end of everything.
 *
 * It counts as up until something has been asked for SILENCE_MS and nothing
 * was answered, or until something was refused for so long because etcd takes
 * no writes. What fails moves all who follow to the next endpoint. */
#include "elastic/etcd/etcd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "elastic/etcd/client.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

/* A little longer than one sending may take, so that its cause is known. */
#define SILENCE_MS (RG__ETCD_UNARY_MS + 100)
#define GOODBYE_MS 200 /* for revoking a lease given up just before */

/* ------------------------------------------------------------------ health */

static void tell_state(void *arg)
{
    rg__etcd *etcd = arg;
    const bool is_up = rg__etcd_is_up(etcd);
    if (etcd->told_up == is_up)
        return;
    etcd->told_up = is_up;
    if (etcd->on_state != NULL)
        etcd->on_state(etcd->arg, is_up, rg__etcd_why(etcd));
}

static void on_silence(void *arg)
{
    rg__etcd *etcd = arg;
    etcd->is_silent = true;
    if (etcd->why[0] == '\0')
        snprintf(etcd->why, sizeof etcd->why, "%s gives no answer",
                 etcd->endpoints[etcd->endpoint]);
    rg__log(RG__DEBUG, "etcd", "no answer for a second: %s", etcd->why);
    tell_state(etcd);
}

void rg__etcd_asked(rg__etcd *etcd)
{
    if (!etcd->is_silent && !rg__timer_is_set(etcd->silence))
        rg__timer_set(etcd->silence, SILENCE_MS * RG__MS);
}

void rg__etcd_idle(rg__etcd *etcd)
{
    rg__timer_stop(etcd->silence);
}

void rg__etcd_answered(rg__etcd *etcd)
{
    etcd->why[0] = '\0';
    rg__timer_stop(etcd->silence);
    if (etcd->reqs != NULL)
        rg__timer_set(etcd->silence, SILENCE_MS * RG__MS);
    if (!etcd->is_silent)
        return;
    etcd->is_silent = false;
    rg__timer_set(etcd->tell, 0);
    rg__log(RG__DEBUG, "etcd", "%s answers again",
            etcd->endpoints[etcd->endpoint]);
    rg__etcd_hurry_requests(etcd);
    rg__etcd_hurry_mirrors(etcd);
}

static void try_next(rg__etcd *etcd, int endpoint)
{
    if (etcd->endpoint == endpoint)
        etcd->endpoint = (endpoint + 1) % etcd->endpoint_count;
    if (etcd->endpoint != endpoint)
        rg__etcd_move_mirrors(etcd, endpoint);
}

void rg__etcd_failed(rg__etcd *etcd, int endpoint, const char *why)
{
    snprintf(etcd->why, sizeof etcd->why, "%s: %s", etcd->endpoints[endpoint],
             why);
    rg__log(RG__DEBUG, "etcd", "no answer from %s", etcd->why);
    try_next(etcd, endpoint);
}

void rg__etcd_late(rg__etcd *etcd, int endpoint, const char *why)
{
    if (strchr(etcd->why, ';') != NULL) /* http.c: it has a remedy */
        try_next(etcd, endpoint);
    else
        rg__etcd_failed(etcd, endpoint, why);
}

/* Refused requests are sent again at least once a second: one that is still
 * waiting has been refused ever since. */
static void on_refusing(void *arg)
{
    rg__etcd *etcd = arg;
    etcd->is_refusing = rg__etcd_has_refused(etcd);
    if (etcd->is_refusing)
        rg__timer_set(etcd->refusing, SILENCE_MS * RG__MS);
    tell_state(etcd);
}

void rg__etcd_refused(rg__etcd *etcd, int endpoint, const char *message)
{
    const bool is_full = strstr(message, "space exceeded") != NULL;
    rg__etcd_answered(etcd);
    snprintf(etcd->refusal, sizeof etcd->refusal,
             is_full ? "%s: its database is full (%s); compact and defragment "
                       "it or raise its quota, then disarm its alarm"
                     : "%s: %s",
             etcd->endpoints[endpoint], message);
    if (!rg__timer_is_set(etcd->refusing))
        rg__timer_set(etcd->refusing, SILENCE_MS * RG__MS);
}

void rg__etcd_taken(rg__etcd *etcd)
{
    rg__timer_set(etcd->refusing, 0);
}

bool rg__etcd_is_up(const rg__etcd *etcd)
{
    return !etcd->is_silent && !etcd->is_refusing;
}

bool rg__etcd_is_refusing(const rg__etcd *etcd)
{
    return etcd->is_refusing && !etcd->is_silent;
}

const char *rg__etcd_lack(const rg__etcd *etcd)
{
    return rg__etcd_is_refusing(etcd) ? "takes no writes" : "does not answer";
}

const char *rg__etcd_why(const rg__etcd *etcd)
{
    return rg__etcd_is_refusing(etcd) ? etcd->refusal : etcd->why;
}

/* --------------------------------------------------------------- endpoints */

static bool has_tls(const char *url)
{
    return strncmp(url, "https://", 8) == 0;
}

const char *rg__etcd_socket(const char *endpoint)
{
    static const char scheme[] = "unix://";
    const size_t n = sizeof scheme - 1;
    return strncmp(endpoint, scheme, n) == 0 ? endpoint + n : NULL;
}

void rg__etcd_url(const char *endpoint, const char *path,
                  char url[RG__ETCD_URL_MAX])
{
    const bool is_socket = rg__etcd_socket(endpoint) != NULL;
    snprintf(url, RG__ETCD_URL_MAX, "%s%s",
             is_socket ? "http://localhost" : endpoint, path);
}

/* "http://host:port" or "[::1]:2379" into host and port. */
bool rg__etcd_split(const char *endpoints, char *host, size_t host_bytes,
                    char *port, size_t port_bytes)
{
    const char *scheme = strstr(endpoints, "://");
    const char *at = scheme != NULL ? scheme + 3 : endpoints;
    if (rg__etcd_socket(endpoints) != NULL)
        at = "127.0.0.1";
    const char *begin = at, *end = at + strcspn(at, ":/,");
    if (*at == '[') {
        begin = at + 1;
        end = begin + strcspn(begin, "]");
        at = *end == ']' ? end + 1 : end;
    } else {
        at = end;
    }
    const size_t n = (size_t)(end - begin);
    if (n == 0 || n >= host_bytes)
        return false;
    snprintf(host, host_bytes, "%.*s", (int)n, begin);
    snprintf(port, port_bytes, "%.*s",
             *at == ':' ? (int)strcspn(at + 1, "/,") : 4,
             *at == ':' ? at + 1 : "2379");
    return true;
}

static rg_status check_socket(const char *url, const char *path)
{
    const struct sockaddr_un *const address = NULL;
    if (path[0] == '/' && strlen(path) < sizeof address->sun_path)
        return RG_OK;
    return rg__fail(RG_ERR_INVALID,
                    "\"%s\" is no etcd endpoint; that of a socket looks like "
                    "unix:///run/etcd/socket, and its path has at most %zu "
                    "characters",
                    url, sizeof address->sun_path - 1);
}

static rg_status check_endpoint(const char *url)
{
    const size_t n = strlen(has_tls(url) ? "https://" : "http://");
    const char *socket = rg__etcd_socket(url);
    if (socket != NULL)
        return check_socket(url, socket);
    if (strlen(url) > RG__ETCD_ENDPOINT_MAX)
        return rg__fail(RG_ERR_INVALID, "an etcd endpoint of %zu characters",
                        strlen(url));
    if ((!has_tls(url) && strncmp(url, "http://", n) != 0) || url[n] == '\0' ||
        url[n] == ':' || strpbrk(url + n, "/?#@ ") != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "\"%s\" is no etcd endpoint; one looks like "
                        "http://127.0.0.1:2379 or https://etcd.example:2379",
                        url);
    return RG_OK;
}

static rg_status add_endpoint(rg__etcd *etcd, const char *url, size_t n)
{
    char **list = realloc(etcd->endpoints,
                          ((size_t)etcd->endpoint_count + 1) * sizeof *list);
    if (list == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for etcd's endpoints");
    etcd->endpoints = list;
    while (n > 0 && url[n - 1] == '/') /* http://a:2379/ is the same place */
        n--;
    char *copy = strndup(url, n);
    if (copy == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for etcd's endpoints");
    list[etcd->endpoint_count++] = copy;
    return check_endpoint(copy);
}

static rg_status read_endpoints(rg__etcd *etcd, const char *text)
{
    rg_status st = RG_OK;
    if (text == NULL || text[0] == '\0')
        return rg__fail(RG_ERR_INVALID, "no etcd endpoint is given");
    while (st == RG_OK) {
        const size_t n = strcspn(text, ",");
        st = add_endpoint(etcd, text, n);
        if (text[n] == '\0')
            break;
        text += n + 1;
    }
    return st;
}

/* Who names files for TLS doesn't want to send the password without it. */
static rg_status check_tls(const rg__etcd *etcd, const rg__etcd_params *params)
{
    if (params->key != NULL && params->cert == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "--etcd-key %s is the key of no certificate; give that "
                        "with --etcd-cert",
                        params->key);
    if (params->cacert == NULL && params->cert == NULL)
        return RG_OK;
    for (int i = 0; i < etcd->endpoint_count; i++)
        if (!has_tls(etcd->endpoints[i]))
            return rg__fail(
                RG_ERR_INVALID,
                "etcd endpoint %s is not encrypted, so --etcd-%s "
                "%s can't be used there; write https://",
                etcd->endpoints[i], params->cacert != NULL ? "cacert" : "cert",
                params->cacert != NULL ? params->cacert : params->cert);
    return RG_OK;
}

/* ------------------------------------------------------ create and destroy */

static bool copy_credentials(rg__etcd *etcd, const rg__etcd_params *params)
{
    if (params->user == NULL)
        return true;
    etcd->user = strdup(params->user);
    etcd->password = strdup(params->password != NULL ? params->password : "");
    return etcd->user != NULL && etcd->password != NULL;
}

static rg_status open_client(rg__etcd *etcd, rg__loop *loop,
                             const rg__etcd_params *params)
{
    etcd->loop = loop;
    etcd->told_up = true;
    etcd->on_state = params->on_state;
    etcd->arg = params->arg;
    etcd->silence = rg__timer_create(loop, on_silence, etcd);
    etcd->refusing = rg__timer_create(loop, on_refusing, etcd);
    etcd->tell = rg__timer_create(loop, tell_state, etcd);
    if (etcd->silence == NULL || etcd->refusing == NULL || etcd->tell == NULL ||
        !copy_credentials(etcd, params))
        return rg__fail(RG_ERR_MEMORY, "no memory for an etcd client");
    const rg__http_tls tls = {
        .cacert = params->cacert, .cert = params->cert, .key = params->key};
    rg_status st = read_endpoints(etcd, params->endpoints);
    if (st == RG_OK)
        st = check_tls(etcd, params);
    return st == RG_OK ? rg__http_create(loop, &tls, &etcd->http) : st;
}

rg_status rg__etcd_create(rg__loop *loop, const rg__etcd_params *params,
                          rg__etcd **etcd_p)
{
    rg__etcd *etcd = calloc(1, sizeof *etcd);
    if (etcd == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an etcd client");
    const rg_status st = open_client(etcd, loop, params);
    if (st != RG_OK) {
        rg__etcd_destroy(etcd);
        return st;
    }
    *etcd_p = etcd;
    return RG_OK;
}

static void free_texts(rg__etcd *etcd)
{
    for (int i = 0; i < etcd->endpoint_count; i++)
        free(etcd->endpoints[i]);
    free(etcd->endpoints);
    free(etcd->user);
    free(etcd->password);
    free(etcd->token);
}

void rg__etcd_destroy(rg__etcd *etcd)
{
    if (etcd == NULL)
        return;
    while (etcd->mirrors != NULL)
        rg__mirror_destroy(etcd->mirrors);
    while (etcd->leases != NULL)
        rg__lease_forget(etcd->leases);
    if (rg__etcd_keep_goodbyes(etcd) && !etcd->is_silent)
        rg__http_drain(etcd->http, GOODBYE_MS);
    while (etcd->reqs != NULL)
        rg__etcd_cancel(etcd->reqs);
    rg__http_destroy(etcd->http);
    rg__timer_destroy(etcd->silence);
    rg__timer_destroy(etcd->refusing);
    rg__timer_destroy(etcd->tell);
    free_texts(etcd);
    free(etcd);
}
