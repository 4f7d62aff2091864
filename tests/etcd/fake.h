/* A server on the test's own loop that answers what the test says, also what
 * no server should, and a proxy in front of a real one that loses and delays.
 */
#ifndef TESTS_ETCD_FAKE_H
#define TESTS_ETCD_FAKE_H

#include <stdbool.h>
#include <stddef.h>

#include "sdk/base/loop.h"

typedef struct fake fake;
typedef struct fake_conn fake_conn;

/* A request has come whole. Texts are borrowed; conn stays until its other
 * side closes it, or fake_hang_up. */
typedef void (*fake_fn)(void *arg, fake_conn *conn, const char *path,
                        const char *body);

fake *fake_open(rg__loop *loop, fake_fn fn, void *arg);
void fake_close(fake *f); /* hangs up on all */
const char *fake_url(const fake *f);
/* All of the request that fn is being called for, its head included. */
const char *fake_request(const fake_conn *conn);
int fake_accepted(const fake *f);  /* connections so far */
int fake_connected(const fake *f); /* connections now */

void fake_say(fake_conn *conn, const char *bytes, size_t n);
/* A whole answer, after which the connection stays. */
void fake_answer(fake_conn *conn, int code, const char *type, const char *body);
/* The beginning of an answer without a length; bytes in chunks; its end. */
void fake_stream(fake_conn *conn);
void fake_chunk(fake_conn *conn, const char *bytes, size_t n);
void fake_end_stream(fake_conn *conn);
void fake_hang_up(fake_conn *conn); /* once all is sent */

typedef enum proxy_mode {
    PROXY_PASS,
    PROXY_DROP_REPLY, /* the next reply is lost, with its connection */
    PROXY_HOLD,       /* requests wait, also when their sender is gone */
    PROXY_REFUSE,     /* hang up on all, and on newcomers too */
    PROXY_STALL,      /* the link is cut: nothing passes, neither end is told */
} proxy_mode;

typedef struct proxy proxy;
proxy *proxy_open(rg__loop *loop, const char *upstream_url);
void proxy_close(proxy *p);
const char *proxy_url(const proxy *p);
void proxy_set(proxy *p, proxy_mode mode); /* PASS lets go what was held */
int proxy_dropped(const proxy *p);         /* replies so far */
int proxy_held(const proxy *p);            /* requests now */
int proxy_answered_none(const proxy *p);   /* replies whose asker was gone */

#endif
