/* The fake server: non-blocking, because its client runs on the same thread. */
#include "tests/etcd/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/etcd/wires.h"

struct fake_conn {
    fake *server;
    fake_conn *next;
    int sock;
    bytes_buffer in, out;
    const char *request; /* being served */
    bool must_close;
};

struct fake {
    rg__loop *loop;
    fake_fn fn;
    void *arg;
    int listener, accepted;
    fake_conn *conns;
    char url[64];
};

static void free_conn(fake_conn *conn)
{
    fake_conn **at = &conn->server->conns;
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    rg__loop_unwatch(conn->server->loop, conn->sock);
    close(conn->sock);
    free(conn->in.bytes);
    free(conn->out.bytes);
    free(conn);
}

/* ----------------------------------------------------------------- sending */

static void on_conn(void *arg, int sock, uint32_t events);

static void watch_conn(fake_conn *conn)
{
    const uint32_t events =
        (uint32_t)EPOLLIN | (conn->out.n > 0 ? (uint32_t)EPOLLOUT : 0);
    CHECK_OK(
        rg__loop_watch(conn->server->loop, conn->sock, events, on_conn, conn));
}

/* false: the connection is gone. */
static bool flush(fake_conn *conn)
{
    if (!buffer_send(&conn->out, conn->sock) ||
        (conn->must_close && conn->out.n == 0)) {
        free_conn(conn);
        return false;
    }
    watch_conn(conn);
    return true;
}

void fake_say(fake_conn *conn, const char *bytes, size_t n)
{
    buffer_add(&conn->out, bytes, n);
    watch_conn(conn);
}

static void say(fake_conn *conn, const char *text)
{
    fake_say(conn, text, strlen(text));
}

void fake_answer(fake_conn *conn, int code, const char *type, const char *body)
{
    char head[256];
    snprintf(head, sizeof head,
             "HTTP/1.1 %d Whatever\r\nContent-Type: %s\r\n"
             "Content-Length: %zu\r\n\r\n",
             code, type, strlen(body));
    say(conn, head);
    say(conn, body);
}

void fake_stream(fake_conn *conn)
{
    say(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
              "Transfer-Encoding: chunked\r\n\r\n");
}

void fake_chunk(fake_conn *conn, const char *bytes, size_t n)
{
    char size[32];
    snprintf(size, sizeof size, "%zx\r\n", n);
    say(conn, size);
    fake_say(conn, bytes, n);
    say(conn, "\r\n");
}

void fake_end_stream(fake_conn *conn)
{
    say(conn, "0\r\n\r\n");
}

void fake_hang_up(fake_conn *conn)
{
    conn->must_close = true;
    buffer_add(&conn->out, "", 0);
    CHECK_OK(rg__loop_watch(conn->server->loop, conn->sock,
                            (uint32_t)EPOLLIN | (uint32_t)EPOLLOUT, on_conn,
                            conn));
}

/* --------------------------------------------------------------- receiving */

/* Serve one request if it is whole; true: there may be another. */
static bool serve_request(fake_conn *conn)
{
    char path[256] = "";
    const size_t n = request_bytes(&conn->in);
    if (n == 0)
        return false;
    char *text = buffer_take(&conn->in, n);
    CHECK_EQ(sscanf(text, "POST %255s", path), 1);
    conn->request = text;
    conn->server->fn(conn->server->arg, conn, path,
                     strstr(text, "\r\n\r\n") + 4);
    conn->request = NULL;
    free(text);
    return true;
}

static void on_conn(void *arg, int sock, uint32_t events)
{
    fake_conn *conn = arg;
    (void)sock;
    if ((events & EPOLLOUT) && !flush(conn))
        return;
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    if (!buffer_receive(&conn->in, conn->sock)) {
        free_conn(conn);
        return;
    }
    while (serve_request(conn))
        ;
}

static void on_listener(void *arg, int listener, uint32_t events)
{
    fake *f = arg;
    (void)events;
    const int sock =
        accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (sock < 0)
        return; /* it changed its mind */
    fake_conn *conn = calloc(1, sizeof *conn);
    CHECK(conn != NULL);
    conn->server = f;
    conn->sock = sock;
    conn->next = f->conns;
    f->conns = conn;
    f->accepted++;
    watch_conn(conn);
}

fake *fake_open(rg__loop *loop, fake_fn fn, void *arg)
{
    fake *f = calloc(1, sizeof *f);
    CHECK(f != NULL);
    f->loop = loop;
    f->fn = fn;
    f->arg = arg;
    f->listener = listen_somewhere(f->url, sizeof f->url);
    CHECK_OK(rg__loop_watch(loop, f->listener, EPOLLIN, on_listener, f));
    return f;
}

void fake_close(fake *f)
{
    while (f->conns != NULL)
        free_conn(f->conns);
    rg__loop_unwatch(f->loop, f->listener);
    close(f->listener);
    free(f);
}

const char *fake_url(const fake *f)
{
    return f->url;
}

const char *fake_request(const fake_conn *conn)
{
    return conn->request;
}

int fake_accepted(const fake *f)
{
    return f->accepted;
}

int fake_connected(const fake *f)
{
    int n = 0;
    for (const fake_conn *conn = f->conns; conn != NULL; conn = conn->next)
        n++;
    return n;
}
