/* HTTP requests on the loop, as many at once as are asked for, each on a
 * connection of its own while it is under way: none waits for another.
 * Connections stay open and are used again.
 *
 * curl refuses, without a word, what is asked of it from inside its own
 * callbacks. So no function of a caller runs there: bytes are put aside and
 * handed over when curl has returned, and every function here may be called
 * from data and done. */
#ifndef RG_ELASTIC_ETCD_HTTP_H
#define RG_ELASTIC_ETCD_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "regroup/regroup.h"
#include "sdk/base/loop.h"

typedef struct rg__http rg__http;
typedef struct rg__transfer rg__transfer;

typedef struct rg__http_result {
    int code;        /* of HTTP; 0: no whole answer */
    const char *why; /* code 0: the cause */
    bool is_late;    /* code 0: a time limit has passed */
    bool is_slow;    /* and it had connected by then, which TLS does not tell */
    const char *body; /* what data didn't take; a NUL behind */
    size_t body_bytes;
    const char *etag; /* of the answer's header; "": none */
    int sendings;     /* curl sends again by itself when a connection that
                       * it kept turns out dead */
} rg__http_result;

typedef struct rg__http_fns {
    /* Bytes of the answer as they come; NULL: all at once in done. */
    void (*data)(void *arg, const char *bytes, size_t n);
    /* The end; the transfer is gone. */
    void (*done)(void *arg, const rg__http_result *result);
} rg__http_fns;

/* Files for https, each NULL for none; copied. */
typedef struct rg__http_tls {
    const char *cacert, *cert, *key;
} rg__http_tls;

/* Copy a text, which may be NULL; false: no memory. */
static inline bool rg__http_copy(const char *text, char **copy_p)
{
    *copy_p = text != NULL ? strdup(text) : NULL;
    return text == NULL || *copy_p != NULL;
}

/* tls: for etcd; NULL: for other servers. */
rg_status rg__http_create(rg__loop *loop, const rg__http_tls *tls,
                          rg__http **http_p);
/* Cancels every transfer; also from inside data and done. NULL allowed. */
void rg__http_destroy(rg__http *http);

/* Start; texts are copied, fns and arg borrowed until done or cancel. socket: a
 * unix socket that is the way to url's host; NULL: none. token NULL: none;
 * timeout_ms 0: the answer may take forever, connecting only over TLS. */
rg_status rg__http_post(rg__http *http, const char *url, const char *socket,
                        const char *body, const char *token, int timeout_ms,
                        const rg__http_fns *fns, void *arg,
                        rg__transfer **transfer_p);
/* Any request, to any server. */
typedef struct rg__http_request {
    const char *method; /* GET, PUT, POST */
    const char *url;
    const char *const *headers; /* lines, NULL behind the last */
    const char *body;           /* NULL: none */
    size_t body_max;            /* of the answer: more is an error */
    int timeout_ms;
} rg__http_request;

/* Start; all of the request is copied. done only. */
rg_status rg__http_send(rg__http *http, const rg__http_request *request,
                        const rg__http_fns *fns, void *arg,
                        rg__transfer **transfer_p);

/* Close it; neither data nor done comes any more. NULL allowed. */
void rg__http_cancel(rg__transfer *transfer);

/* Let transfers progress without the loop, until none is left or the time is
 * over. For the last messages before destroy. */
void rg__http_drain(rg__http *http, int timeout_ms);

#endif
