/* curl's multi interface on the loop: its sockets are watched descriptors, its
 * timeout is one timer. After each turn of curl the transfers that have bytes
 * or have ended are served, oldest first. */
#include "elastic/etcd/http.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"

#define CONNECT_MS       300
#define HANDSHAKE_MS     1000        /* connecting, where TLS is added */
#define CA_SECONDS       60          /* until the file of CAs is read again */
#define BODY_MAX         (64u << 20) /* of one answer, or of one serving */
#define IDLE_CONNECTIONS 32L
#define WHY_MAX          (CURL_ERROR_SIZE + 160)
#define ETAG_MAX         128

struct rg__transfer {
    rg__transfer *next; /* in the order of their start */
    rg__http *http;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    const rg__http_fns *fns;
    void *arg;
    char *in; /* bytes not yet handed over */
    size_t in_bytes, in_capacity, in_max;
    char etag[ETAG_MAX];
    bool has_tls, has_socket, is_ended;
    int code, sendings;
    char why[WHY_MAX];
    bool is_late;
};

struct rg__http {
    rg__loop *loop;
    CURLM *multi;
    rg__timer *timer;
    rg__transfer *transfers;
    char *cacert, *cert, *key; /* files; NULL: none */
    bool is_etcds;             /* whose flags an error may name */
    bool is_serving;           /* destroy leaves the end to serve, then */
    bool is_over;
};

/* --------------------------------------------------------------- transfers */

static void free_transfer(rg__transfer *t)
{
    if (t == NULL)
        return;
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    free(t->body);
    free(t->in);
    free(t);
}

static void take_out(rg__transfer *t)
{
    rg__chain_remove(&t->http->transfers, t);
    t->next = NULL;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
    rg__transfer *t = arg;
    n *= size;
    if (t->in_bytes + n > t->in_max)
        return 0;
    if (t->in_bytes + n + 1 > t->in_capacity) {
        const size_t capacity = 2 * (t->in_bytes + n + 1);
        char *in = realloc(t->in, capacity);
        if (in == NULL)
            return 0;
        t->in = in;
        t->in_capacity = capacity;
    }
    memcpy(t->in + t->in_bytes, bytes, n);
    t->in_bytes += n;
    t->in[t->in_bytes] = '\0';
    return n;
}

/* One line of the answer's head. */
static size_t on_header(char *bytes, size_t size, size_t n, void *arg)
{
    static const char name[] = "etag:";
    rg__transfer *t = arg;
    n *= size;
    if (n < sizeof name || strncasecmp(bytes, name, sizeof name - 1) != 0)
        return n;
    const char *text = bytes + sizeof name - 1, *end = bytes + n;
    while (text < end && *text == ' ')
        text++;
    size_t length = 0;
    while (text + length < end && strchr("\r\n", text[length]) == NULL)
        length++;
    if (length < sizeof t->etag) {
        memcpy(t->etag, text, length);
        t->etag[length] = '\0';
    }
    return n;
}

/* curl is about to send the request on a connection that stands. */
static int on_sending(void *arg, char *to, char *from, int to_port,
                      int from_port)
{
    rg__transfer *t = arg;
    (void)to, (void)from, (void)to_port, (void)from_port;
    t->sendings++;
    return CURL_PREREQFUNC_OK;
}

/* curl would let every program that the agent starts inherit it. */
static curl_socket_t on_open(void *arg, curlsocktype purpose,
                             struct curl_sockaddr *at)
{
    (void)arg, (void)purpose;
    return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

static bool add_header(rg__transfer *t, const char *name, const char *value)
{
    const size_t n = strlen(name) + strlen(value) + 1; /* tokens may be long */
    char *line = malloc(n);
    if (line == NULL)
        return false;
    snprintf(line, n, "%s%s", name, value);
    struct curl_slist *headers = curl_slist_append(t->headers, line);
    free(line);
    if (headers == NULL)
        return false;
    t->headers = headers;
    return true;
}

static bool add_headers(rg__transfer *t, const char *token)
{
    /* Without hasleader a member cut off from the others says nothing for seven
     * seconds, and its watches are deaf. With Accept etcd knows that the
     * certificate it sees is its own gateway's, and asks for the token. */
    return add_header(t, "Content-Type: ", "application/json") &&
           add_header(t, "Accept: ", "*/*") && add_header(t, "Expect:", "") &&
           add_header(t, "Grpc-Metadata-hasleader: ", "true") &&
           (token == NULL || add_header(t, "Authorization: ", token));
}

/* Without a file of CAs those count that the machine trusts. A key that needs
 * a passphrase must fail, not ask for it at the terminal. */
static void set_tls(CURL *easy, const rg__http *http)
{
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (http->cacert != NULL) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, http->cacert);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, (long)CA_SECONDS);
    curl_easy_setopt(easy, CURLOPT_SSLCERT, http->cert);
    curl_easy_setopt(easy, CURLOPT_SSLKEY, http->key);
    curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");
}

static void set_options(rg__transfer *t, const char *url, const char *socket,
                        int timeout_ms)
{
    CURL *easy = t->easy;
    curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, socket);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    /* Over TLS etcd offers HTTP/2, where a watch would share its connection. */
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    if (t->has_tls) /* a handshake may take as long as an answer */
        set_tls(easy, t->http);
    else
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    /* Not through the environment's proxy: it would hold watches back. */
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (t->body != NULL) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, t->body);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)strlen(t->body));
    }
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_sending);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, t);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->why);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    /* Giving up must not wait for a hanging resolver. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
}

static rg__transfer *make_transfer(rg__http *http, const char *url,
                                   const char *socket, const char *body,
                                   int timeout_ms)
{
    rg__transfer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    t->http = http;
    t->in_max = BODY_MAX;
    t->has_tls = strncmp(url, "https:", 6) == 0;
    t->has_socket = socket != NULL;
    t->easy = curl_easy_init();
    t->body = body != NULL ? strdup(body) : NULL;
    if (t->easy == NULL || (body != NULL && t->body == NULL)) {
        free_transfer(t);
        return NULL;
    }
    set_options(t, url, socket, timeout_ms);
    return t;
}

/* is_whole: there was memory for all of it. */
static rg_status start(rg__transfer *t, bool is_whole, const char *url,
                       const rg__http_fns *fns, void *arg,
                       rg__transfer **transfer_p)
{
    if (!is_whole) {
        free_transfer(t);
        return rg__fail(RG_ERR_MEMORY, "no memory for a request to %s", url);
    }
    t->fns = fns;
    t->arg = arg;
    curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
    const CURLMcode rc = curl_multi_add_handle(t->http->multi, t->easy);
    if (rc != CURLM_OK) {
        free_transfer(t);
        return rg__fail(RG_ERR_SYSTEM, "a request to %s can't be started: %s",
                        url, curl_multi_strerror(rc));
    }
    rg__chain_append(&t->http->transfers, t);
    *transfer_p = t;
    return RG_OK;
}

rg_status rg__http_post(rg__http *http, const char *url, const char *socket,
                        const char *body, const char *token, int timeout_ms,
                        const rg__http_fns *fns, void *arg,
                        rg__transfer **transfer_p)
{
    rg__transfer *t = make_transfer(http, url, socket, body, timeout_ms);
    const bool is_whole = t != NULL && add_headers(t, token);
    return start(t, is_whole, url, fns, arg, transfer_p);
}

static bool add_lines(rg__transfer *t, const char *const *lines)
{
    for (; *lines != NULL; lines++)
        if (!add_header(t, "", *lines))
            return false;
    return true;
}

rg_status rg__http_send(rg__http *http, const rg__http_request *r,
                        const rg__http_fns *fns, void *arg,
                        rg__transfer **transfer_p)
{
    rg__transfer *t = make_transfer(http, r->url, NULL, r->body, r->timeout_ms);
    const bool is_whole = t != NULL && add_lines(t, r->headers);
    if (is_whole) {
        t->in_max = r->body_max;
        curl_easy_setopt(t->easy, CURLOPT_CONNECTTIMEOUT_MS,
                         (long)HANDSHAKE_MS);
        curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, r->method);
        curl_easy_setopt(t->easy, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(t->easy, CURLOPT_HEADERDATA, t);
    }
    return start(t, is_whole, r->url, fns, arg, transfer_p);
}

void rg__http_cancel(rg__transfer *transfer)
{
    if (transfer == NULL)
        return;
    if (!transfer->is_ended)
        curl_multi_remove_handle(transfer->http->multi, transfer->easy);
    take_out(transfer);
    free_transfer(transfer);
}

/* ----------------------------------------------------------------- serving */

/* What curl says about a failed connection names no setting. In TLS 1.3 a
 * server refuses a certificate only after the handshake. */
static const char *advice(CURLcode rc, bool has_tls)
{
    switch (rc) {
    case CURLE_GOT_NOTHING:
        if (!has_tls)
            return "; does it speak TLS there? (https://)";
        /* fall through */
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
        return has_tls ? "; does it want another certificate? (--etcd-cert)"
                       : "";
    case CURLE_PEER_FAILED_VERIFICATION:
        return "; --etcd-cacert must hold the CA of etcd's certificate, which "
               "must name this host or address";
    case CURLE_SSL_CACERT_BADFILE:
        return "; --etcd-cacert must be a PEM file of CA certificates";
    case CURLE_SSL_CERTPROBLEM:
        return "; --etcd-cert and --etcd-key must be a certificate and its key "
               "without a passphrase, in PEM";
    case CURLE_SSL_CONNECT_ERROR:
        return "; does it speak TLS there, and take this certificate? "
               "(https://, --etcd-cert)";
    default:
        return "";
    }
}

static void say_why(rg__transfer *t, CURLcode rc)
{
    if (t->has_socket && rc == CURLE_COULDNT_CONNECT)
        snprintf(t->why, sizeof t->why, "no process listens at that socket");
    if (rc == CURLE_WRITE_ERROR)
        snprintf(t->why, sizeof t->why,
                 "its answer is longer than the %zu bytes that are read, or "
                 "there is no memory for it",
                 t->in_max);
    if (t->why[0] == '\0')
        snprintf(t->why, sizeof t->why, "%s", curl_easy_strerror(rc));
    const size_t n = strlen(t->why);
    if (t->http->is_etcds)
        snprintf(t->why + n, sizeof t->why - n, "%s", advice(rc, t->has_tls));
}

static void end_transfer(rg__http *http, CURL *easy, CURLcode rc)
{
    rg__transfer *t = NULL;
    long code = 0;
    curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&t);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code);
    curl_multi_remove_handle(http->multi, easy);
    t->is_ended = true;
    t->code = rc == CURLE_OK ? (int)code : 0;
    t->is_late = rc == CURLE_OPERATION_TIMEDOUT;
    if (rc != CURLE_OK)
        say_why(t, rc);
}

static void end_transfers(rg__http *http)
{
    CURLMsg *message = NULL;
    int left = 0;
    while ((message = curl_multi_info_read(http->multi, &left)) != NULL)
        if (message->msg == CURLMSG_DONE)
            end_transfer(http, message->easy_handle, message->data.result);
}

static bool has_fresh_bytes(const rg__transfer *t)
{
    return t->fns->data != NULL && t->in_bytes > 0;
}

static rg__transfer *find_to_serve(const rg__http *http)
{
    for (rg__transfer *t = http->transfers; t != NULL; t = t->next)
        if (t->is_ended || has_fresh_bytes(t))
            return t;
    return NULL;
}

static void hand_over_bytes(rg__transfer *t)
{
    char *in = t->in;
    const size_t n = t->in_bytes;
    t->in = NULL;
    t->in_bytes = t->in_capacity = 0;
    t->fns->data(t->arg, in, n); /* may cancel t, or destroy everything */
    free(in);
}

static void hand_over_end(rg__transfer *t)
{
    const rg__http_result result = {.code = t->code,
                                    .why = t->why,
                                    .is_late = t->is_late,
                                    .is_slow = t->is_late &&
                                               (t->sendings > 0 || t->has_tls),
                                    .body = t->in != NULL ? t->in : "",
                                    .body_bytes = t->in_bytes,
                                    .etag = t->etag,
                                    .sendings = t->sendings};
    take_out(t);
    t->fns->done(t->arg, &result);
    free_transfer(t);
}

static void free_http(rg__http *http)
{
    curl_multi_cleanup(http->multi); /* closes what is kept: needs the loop */
    rg__timer_destroy(http->timer);
    free(http->cacert);
    free(http->cert);
    free(http->key);
    free(http);
}

static void serve(rg__http *http)
{
    rg__transfer *t = NULL;
    end_transfers(http);
    http->is_serving = true;
    while ((t = find_to_serve(http)) != NULL) {
        if (has_fresh_bytes(t))
            hand_over_bytes(t);
        else
            hand_over_end(t);
    }
    http->is_serving = false;
    if (http->is_over)
        free_http(http);
}

/* -------------------------------------------------------- curl on the loop */

static void on_fd(void *arg, int fd, uint32_t events)
{
    rg__http *http = arg;
    int running = 0;
    const int what = (events & EPOLLIN ? CURL_CSELECT_IN : 0) |
                     (events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                     (events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(http->multi, fd, what, &running);
    serve(http);
}

static void on_timer(void *arg)
{
    rg__http *http = arg;
    int running = 0;
    curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    serve(http);
}

static int on_curl_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                          void *socket_arg)
{
    rg__http *http = arg;
    (void)easy, (void)socket_arg;
    if (what == CURL_POLL_REMOVE) {
        rg__loop_unwatch(http->loop, fd);
        return 0;
    }
    const uint32_t events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
                            (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
    /* A socket that can't be watched costs its transfer a time-out. Saying so
     * to curl would end all transfers for good. */
    if (rg__loop_watch(http->loop, fd, events, on_fd, http) != RG_OK)
        rg__log(RG__WARN, "etcd", "%s", rg_last_error());
    return 0;
}

static int on_curl_timer(CURLM *multi, long ms, void *arg)
{
    rg__http *http = arg;
    (void)multi;
    if (ms < 0)
        rg__timer_stop(http->timer);
    else
        rg__timer_set(http->timer, (uint64_t)ms * RG__MS);
    return 0;
}

static void connect_to_loop(rg__http *http)
{
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, on_curl_socket);
    curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, on_curl_timer);
    curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
    curl_multi_setopt(http->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS);
}

static bool copy_tls(rg__http *http, const rg__http_tls *tls)
{
    return rg__http_copy(tls->cacert, &http->cacert) &&
           rg__http_copy(tls->cert, &http->cert) &&
           rg__http_copy(tls->key, &http->key);
}

rg_status rg__http_create(rg__loop *loop, const rg__http_tls *tls,
                          rg__http **http_p)
{
    rg__http *http = calloc(1, sizeof *http);
    if (http == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an HTTP client");
    http->loop = loop;
    http->is_etcds = tls != NULL;
    http->timer = rg__timer_create(loop, on_timer, http);
    http->multi = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK
                      ? curl_multi_init()
                      : NULL;
    if (http->timer == NULL || http->multi == NULL ||
        (tls != NULL && !copy_tls(http, tls))) {
        rg__http_destroy(http);
        return rg__fail(RG_ERR_MEMORY, "no memory for an HTTP client");
    }
    connect_to_loop(http);
    *http_p = http;
    return RG_OK;
}

void rg__http_drain(rg__http *http, int timeout_ms)
{
    const uint64_t end = rg__now_ns() + (uint64_t)timeout_ms * RG__MS;
    int running = 1;
    while (running > 0 && http->transfers != NULL && rg__now_ns() < end) {
        curl_multi_perform(http->multi, &running);
        if (running > 0)
            curl_multi_poll(http->multi, NULL, 0, 10, NULL);
    }
}

void rg__http_destroy(rg__http *http)
{
    if (http == NULL)
        return;
    while (http->transfers != NULL)
        rg__http_cancel(http->transfers);
    http->is_over = true;
    if (!http->is_serving)
        free_http(http);
}
