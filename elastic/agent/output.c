/* What workers print: line by line to our own output with the worker's name
 * and rank before it, or unchanged into files, one per process started.
 *
 * Our own output may be a pipe that nobody reads for a while (a pager): then
 * the worker's pipe is left alone until it takes bytes again, and the agent
 * goes on with everything else. An output outlives its process until it is
 * written. */
#include "elastic/agent/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/fail.h"

#define LINE_MAX_BYTES 8192
#define HEAD_MAX_BYTES 128
#define WRITE_BYTES                                                            \
    4096 /* a pipe that polls writable takes as many at once                   \
          */
#define STALL_NS (10 * RG__MS)

typedef struct stream {
    output *of;
    int fd; /* the pipe's end here, -1: at its end */
    int to; /* where it goes */
    bool is_file;
    rg__timer *stalled;
    char line[LINE_MAX_BYTES]; /* read, not printed yet */
    size_t n;
    char text[LINE_MAX_BYTES + HEAD_MAX_BYTES]; /* printed, not written yet */
    size_t at, end;
} stream;

struct output {
    output *next; /* of the agent's list */
    agent *a;
    char name[RG__NAME_MAX + 16];
    rg__member_id who;
    bool is_closing; /* the process has ended: what is there is all */
    stream out, err;
};

/* --------------------------------------------------------------- one stream */

static bool is_writable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    return poll(&p, 1, 0) != 0; /* broken counts: the write says so */
}

/* false: it does not take more now. */
static bool flush(stream *st)
{
    while (st->at < st->end) {
        if (!st->is_file && !is_writable(st->to))
            return false;
        const size_t left = st->end - st->at;
        const ssize_t put = write(st->to, st->text + st->at,
                                  left < WRITE_BYTES ? left : WRITE_BYTES);
        if (put < 0 && (errno == EINTR || errno == EAGAIN))
            return errno == EINTR ? flush(st) : false;
        if (put <= 0)
            break; /* our own output is closed or full: nowhere to say it */
        st->at += (size_t)put;
    }
    st->at = st->end = 0;
    return true;
}

static int rank_of(const output *o)
{
    const rg__proposal *p = rg__snapshot_decided(&o->a->view);
    for (int r = 0; p != NULL && r < p->size; r++)
        if (rg__same_member(p->member[r], o->who))
            return r;
    return -1;
}

/* Move the first n bytes, and `skip` behind them, from line to text. */
static void print(stream *st, size_t n, size_t skip)
{
    char rank[16] = "-";
    if (rank_of(st->of) >= 0)
        snprintf(rank, sizeof rank, "%d", rank_of(st->of));
    if (!st->is_file)
        st->end = (size_t)snprintf(st->text, HEAD_MAX_BYTES, "%s r%s | ",
                                   st->of->name, rank);
    memcpy(st->text + st->end, st->line, n);
    st->end += n;
    if (!st->is_file)
        st->text[st->end++] = '\n';
    st->n -= n + skip;
    memmove(st->line, st->line + n + skip, st->n);
}

/* false: nothing to print before more is read. */
static bool print_next(stream *st)
{
    const char *newline = memchr(st->line, '\n', st->n);
    if (st->n == 0)
        return false;
    if (st->is_file)
        print(st, st->n, 0);
    else if (newline != NULL)
        print(st, (size_t)(newline - st->line), 1);
    else if (st->n == sizeof st->line || st->fd < 0)
        print(st, st->n, 0);
    else
        return false;
    return true;
}

/* false: stalled. */
static bool write_out(stream *st)
{
    do
        if (!flush(st))
            return false;
    while (print_next(st));
    return true;
}

static void end_of_pipe(stream *st)
{
    rg__loop_unwatch(st->of->a->loop, st->fd);
    close(st->fd);
    st->fd = -1;
}

/* false: nothing more can be read now. */
static bool take(stream *st)
{
    const ssize_t got = read(st->fd, st->line + st->n, sizeof st->line - st->n);
    if (got > 0) {
        st->n += (size_t)got;
        return true;
    }
    const bool is_empty = got < 0 && (errno == EAGAIN || errno == EINTR);
    if (!is_empty || st->of->is_closing)
        end_of_pipe(st);
    return false;
}

static void on_readable(void *arg, int fd, uint32_t events);
static void drop_if_written(output *o);

/* Read and write until the pipe is empty or our output stalls. */
static void pump(stream *st)
{
    while (write_out(st)) {
        if (st->fd < 0)
            return;
        if (!take(st) && st->fd >= 0) {
            rg__loop_watch(st->of->a->loop, st->fd, EPOLLIN, on_readable, st);
            return;
        }
    }
    if (st->fd >= 0)
        rg__loop_unwatch(st->of->a->loop, st->fd);
    rg__timer_set(st->stalled, STALL_NS);
}

static void on_readable(void *arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    stream *st = arg;
    pump(st);
    drop_if_written(st->of);
}

static void on_stalled(void *arg)
{
    stream *st = arg;
    pump(st);
    drop_if_written(st->of);
}

/* ---------------------------------------------------------------- an output */

static void close_stream(stream *st)
{
    if (st->fd >= 0)
        end_of_pipe(st);
    if (st->is_file && st->to >= 0)
        close(st->to);
    rg__timer_destroy(st->stalled);
}

static bool is_written(const stream *st)
{
    return st->fd < 0 && st->n == 0 && st->at == st->end;
}

static void drop(output *o)
{
    output **at = &o->a->outputs;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    close_stream(&o->out);
    close_stream(&o->err);
    free(o);
}

static void drop_if_written(output *o)
{
    if (!o->is_closing || !is_written(&o->out) || !is_written(&o->err))
        return;
    agent *a = o->a;
    drop(o);
    rg__agent_check_end(a);
}

void rg__outputs_drop(agent *a)
{
    while (a->outputs != NULL)
        drop(a->outputs);
}

static rg_status open_file(const output *o, const char *what, int *fd_p)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%u.%s", o->a->params->output_dir,
             o->name, o->who.start, what);
    *fd_p = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (*fd_p < 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "%s can't be opened for a worker's output: %s", path,
                        strerror(errno));
    return RG_OK;
}

static rg_status open_stream(output *o, stream *st, int own, const char *what,
                             int ends[2])
{
    *st = (stream){.of = o, .fd = -1, .to = own};
    st->stalled = rg__timer_create(o->a->loop, on_stalled, st);
    if (st->stalled == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker's output");
    if (o->a->params->output_dir != NULL) {
        const rg_status rs = open_file(o, what, &st->to);
        if (rs != RG_OK)
            return rs;
        st->is_file = true;
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return rg__fail(RG_ERR_SYSTEM, "a pipe can't be made: %s",
                        strerror(errno));
    st->fd = ends[0];
    fcntl(st->fd, F_SETFL, O_NONBLOCK);
    return rg__loop_watch(o->a->loop, st->fd, EPOLLIN, on_readable, st);
}

rg_status rg__output_open(slot *s, int out[2], int err[2])
{
    output *o = calloc(1, sizeof *o);
    if (o == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker's output");
    o->a = s->a;
    o->who = (rg__member_id){s->a->id, s->index, s->start};
    snprintf(o->name, sizeof o->name, "%s.%u", s->a->params->host, s->index);
    o->out.fd = o->err.fd = -1;
    s->output = o;
    o->next = s->a->outputs;
    s->a->outputs = o;
    rg_status st = open_stream(o, &o->out, STDOUT_FILENO, "out", out);
    if (st == RG_OK)
        st = open_stream(o, &o->err, STDERR_FILENO, "err", err);
    return st;
}

void rg__output_close(slot *s)
{
    output *o = s->output;
    if (o == NULL)
        return;
    s->output = NULL;
    o->is_closing = true;
    pump(&o->out);
    pump(&o->err);
    drop_if_written(o);
}
