/* What workers print: line by line to our own output with the worker's name
 * and rank before it, or unchanged into files, one per process started.
 *
 * Our own output may be a pipe that nobody reads for a while (a pager): then
 * the worker's pipe is left alone until it takes bytes again, and the agent
 * goes on with everything else. An output outlives its process until it is
 * written, and what was read of it outlives the agent: it lies in a spool, and
 * the pipe's end with the keeper. */
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
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

#define LINE_MAX_BYTES 8192
#define HEAD_MAX_BYTES 128
#define WRITE_BYTES                                                            \
    4096 /* a pipe that polls writable takes as many at once                   \
          */
#define STALL_NS (10 * RG__MS)

/* In memory that the next agent is handed. */
typedef struct spool {
    char line[LINE_MAX_BYTES]; /* read, not printed yet */
    size_t n;
    char text[LINE_MAX_BYTES + HEAD_MAX_BYTES]; /* printed, not written yet */
    size_t at, end;
} spool;

typedef struct spools {
    spool out, err;
    int rank; /* of its worker when a line was printed last, -1: none */
} spools;

typedef struct stream {
    output *of;
    int fd; /* the pipe's end here, -1: at its end */
    int to; /* where it goes */
    bool is_file;
    rg__timer *stalled;
    spool *spool;
} stream;

struct output {
    output *next; /* of the agent's list */
    agent *a;
    char name[RG__NAME_MAX + 16];
    rg__member_id who;
    bool is_closing; /* the process has ended: what is there is all */
    stream out, err;
    spools *spools;
    int spools_fd;
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
    spool *sp = st->spool;
    while (sp->at < sp->end) {
        if (!st->is_file && !is_writable(st->to))
            return false;
        const size_t left = sp->end - sp->at;
        const ssize_t put = write(st->to, sp->text + sp->at,
                                  left < WRITE_BYTES ? left : WRITE_BYTES);
        if (put < 0 && (errno == EINTR || errno == EAGAIN))
            return errno == EINTR ? flush(st) : false;
        if (put <= 0)
            break; /* our own output is closed or full: nowhere to say it */
        sp->at += (size_t)put;
    }
    sp->at = sp->end = 0;
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

/* A worker's log line that says itself who speaks; with anything before it, it
 * would be JSON no more. */
static bool is_log_line(const char *text, size_t n)
{
    static const char start[] = "{\"time\":\"";
    return rg__log_is_json() && n > sizeof start && text[n - 1] == '}' &&
           memcmp(text, start, sizeof start - 1) == 0;
}

/* Move the first n bytes, and `skip` behind them, from line to text. */
static void print(stream *st, size_t n, size_t skip)
{
    spool *sp = st->spool;
    char rank[16] = "-";
    if (st->of->a->resume == RESUME_NOT)
        st->of->spools->rank = rank_of(st->of);
    if (st->of->spools->rank >= 0)
        snprintf(rank, sizeof rank, "%d", st->of->spools->rank);
    if (!st->is_file && !is_log_line(sp->line, n))
        sp->end = (size_t)snprintf(sp->text, HEAD_MAX_BYTES, "%s r%s | ",
                                   st->of->name, rank);
    memcpy(sp->text + sp->end, sp->line, n);
    sp->end += n;
    if (!st->is_file)
        sp->text[sp->end++] = '\n';
    sp->n -= n + skip;
    memmove(sp->line, sp->line + n + skip, sp->n);
}

/* false: nothing to print before more is read. */
static bool print_next(stream *st)
{
    const spool *sp = st->spool;
    const char *newline = memchr(sp->line, '\n', sp->n);
    if (sp->n == 0)
        return false;
    if (st->is_file)
        print(st, sp->n, 0);
    else if (newline != NULL)
        print(st, (size_t)(newline - sp->line), 1);
    else if (sp->n == sizeof sp->line || st->fd < 0)
        print(st, sp->n, 0);
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
    spool *sp = st->spool;
    const ssize_t got = read(st->fd, sp->line + sp->n, sizeof sp->line - sp->n);
    if (got > 0) {
        sp->n += (size_t)got;
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
    return st->fd < 0 && st->spool->n == 0 && st->spool->at == st->spool->end;
}

static void drop(output *o)
{
    output **at = &o->a->outputs;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    close_stream(&o->out);
    close_stream(&o->err);
    rg__shm_unmap(o->spools, sizeof *o->spools);
    if (o->spools_fd >= 0)
        close(o->spools_fd);
    free(o);
}

static void name_record(const output *o, char name[RG__KEPT_NAME_MAX])
{
    snprintf(name, RG__KEPT_NAME_MAX, "output/%u.%u", o->who.slot,
             o->who.start);
}

static void drop_if_written(output *o)
{
    if (!o->is_closing || !is_written(&o->out) || !is_written(&o->err))
        return;
    agent *a = o->a;
    char name[RG__KEPT_NAME_MAX];
    name_record(o, name);
    rg__keep_drop(a->keep, name);
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

static rg_status open_stream(output *o, stream *st, int own, const char *what)
{
    *st = (stream){.of = o,
                   .fd = -1,
                   .to = own,
                   .spool = own == STDOUT_FILENO ? &o->spools->out
                                                 : &o->spools->err};
    st->stalled = rg__timer_create(o->a->loop, on_stalled, st);
    if (st->stalled == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker's output");
    if (o->a->params->output_dir == NULL)
        return RG_OK;
    const rg_status rs = open_file(o, what, &st->to);
    st->is_file = rs == RG_OK;
    return rs;
}

static rg_status open_pipe(stream *st, int ends[2])
{
    if (pipe2(ends, O_CLOEXEC) != 0)
        return rg__fail(RG_ERR_SYSTEM, "a pipe can't be made: %s",
                        strerror(errno));
    st->fd = ends[0];
    fcntl(st->fd, F_SETFL, O_NONBLOCK);
    return rg__loop_watch(st->of->a->loop, st->fd, EPOLLIN, on_readable, st);
}

/* In the agent's list, where it is found and dropped also when half built. */
static output *add_output(agent *a, rg__member_id who)
{
    output *o = calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    o->a = a;
    o->who = who;
    o->out.fd = o->err.fd = o->out.to = o->err.to = o->spools_fd = -1;
    snprintf(o->name, sizeof o->name, "%s.%u", a->params->host, who.slot);
    o->next = a->outputs;
    a->outputs = o;
    return o;
}

static rg_status open_streams(output *o)
{
    void *at = NULL;
    rg_status st = rg__shm_map(o->spools_fd, sizeof *o->spools, &at);
    if (st != RG_OK)
        return st;
    o->spools = at;
    st = open_stream(o, &o->out, STDOUT_FILENO, "out");
    return st == RG_OK ? open_stream(o, &o->err, STDERR_FILENO, "err") : st;
}

rg_status rg__output_open(slot *s, int out[2], int err[2])
{
    output *o = add_output(s->a, (rg__member_id){s->a->id, s->index, s->start});
    if (o == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker's output");
    s->output = o;
    rg_status st =
        rg__shm_create("output", sizeof *o->spools, true, &o->spools_fd);
    if (st == RG_OK)
        st = open_streams(o);
    if (st != RG_OK)
        return st;
    o->spools->rank = -1;
    st = open_pipe(&o->out, out);
    if (st == RG_OK)
        st = open_pipe(&o->err, err);
    if (st != RG_OK)
        return st;
    char name[RG__KEPT_NAME_MAX];
    const int fds[] = {o->out.fd, o->err.fd, o->spools_fd};
    name_record(o, name);
    rg__keep_put(s->a->keep, name, &o->who, sizeof o->who, fds, 3);
    return RG_OK;
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

/* ------------------------------------------------------- of an earlier agent
 */

/* It was killed at any instruction. */
static void check_spool(spool *sp)
{
    if (sp->n > sizeof sp->line)
        sp->n = 0;
    if (sp->end > sizeof sp->text || sp->at > sp->end)
        sp->at = sp->end = 0;
}

static void resume_output(agent *a, rg__kept *kept)
{
    rg__member_id who;
    memcpy(&who, kept->bytes, sizeof who);
    output *o = add_output(a, who);
    if (o == NULL)
        return;
    o->spools_fd = rg__kept_take(kept, 2);
    if (open_streams(o) != RG_OK) {
        rg__log(RG__WARN, "agent", "output of %s is lost: %s", o->name,
                rg_last_error());
        drop(o);
        return;
    }
    check_spool(o->out.spool);
    check_spool(o->err.spool);
    o->out.fd = rg__kept_take(kept, 0);
    o->err.fd = rg__kept_take(kept, 1);
    slot *s = rg__slot_of(a, who);
    o->is_closing = s == NULL || s->child == 0;
    if (!o->is_closing)
        s->output = o;
    rg__timer_set(o->out.stalled, 0);
    rg__timer_set(o->err.stalled, 0);
}

void rg__outputs_resume(agent *a)
{
    const rg__kept_list *all = rg__keep_born_with(a->keep);
    for (rg__kept *k = rg__kept_next(all, "output/", NULL); k != NULL;
         k = rg__kept_next(all, "output/", k))
        if (k->n == sizeof(rg__member_id))
            resume_output(a, k);
}
