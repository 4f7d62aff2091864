/* What workers print: line by line to our own output with the worker's name
 * and rank before it, or unchanged into files, one per process started. */
#include "elastic/agent/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sdk/base/fail.h"

#define LINE_MAX_BYTES 8192

typedef struct stream {
    slot *s;
    int fd; /* the pipe's end here, -1: closed */
    int to; /* where it goes */
    bool is_file;
    char line[LINE_MAX_BYTES];
    size_t n;
} stream;

struct output {
    stream out, err;
};

static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t put = write(fd, bytes, n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return; /* our own output is closed or full: nowhere to say it */
        bytes += put;
        n -= (size_t)put;
    }
}

static int rank_of(const slot *s)
{
    const rg__member_id me = {s->a->id, s->index, s->start};
    const rg__proposal *p = rg__snapshot_decided(&s->a->view);
    for (int r = 0; p != NULL && r < p->size; r++)
        if (rg__same_member(p->member[r], me))
            return r;
    return -1;
}

static void print_line(stream *st, size_t n)
{
    char text[LINE_MAX_BYTES + 128], rank[16] = "-";
    if (rank_of(st->s) >= 0)
        snprintf(rank, sizeof rank, "%d", rank_of(st->s));
    const int head = snprintf(text, sizeof text, "%s.%u r%s | ",
                              st->s->a->params->host, st->s->index, rank);
    memcpy(text + head, st->line, n);
    text[(size_t)head + n] = '\n';
    write_all(st->to, text, (size_t)head + n + 1);
}

static void print_lines(stream *st)
{
    size_t begin = 0;
    for (size_t i = 0; i < st->n; i++) {
        if (st->line[i] != '\n')
            continue;
        memmove(st->line, st->line + begin, st->n - begin);
        st->n -= begin;
        i -= begin;
        print_line(st, i);
        begin = i + 1;
    }
    memmove(st->line, st->line + begin, st->n - begin);
    st->n -= begin;
    if (st->n == sizeof st->line) {
        print_line(st, st->n);
        st->n = 0;
    }
}

/* false: at its end. */
static bool take(stream *st)
{
    const ssize_t got = read(st->fd, st->line + st->n, sizeof st->line - st->n);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    if (got == 0)
        return false;
    st->n += (size_t)got;
    if (st->is_file) {
        write_all(st->to, st->line, st->n);
        st->n = 0;
    } else {
        print_lines(st);
    }
    return true;
}

static void close_stream(stream *st)
{
    if (st->fd < 0)
        return;
    rg__loop_unwatch(st->s->a->loop, st->fd);
    close(st->fd);
    st->fd = -1;
    if (!st->is_file && st->n > 0)
        print_line(st, st->n);
    if (st->is_file)
        close(st->to);
}

static void on_readable(void *arg, int fd, uint32_t events)
{
    (void)fd;
    (void)events;
    stream *st = arg;
    if (!take(st))
        close_stream(st);
}

static rg_status open_file(const slot *s, const char *what, int *fd_p)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.%u.%u.%s", s->a->params->output_dir,
             s->a->params->host, s->index, s->start, what);
    *fd_p = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (*fd_p < 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "%s can't be opened for a worker's output: %s", path,
                        strerror(errno));
    return RG_OK;
}

static rg_status open_stream(slot *s, stream *st, int own, const char *what,
                             int ends[2])
{
    *st = (stream){.s = s, .fd = -1, .to = own};
    if (s->a->params->output_dir != NULL) {
        const rg_status rs = open_file(s, what, &st->to);
        if (rs != RG_OK)
            return rs;
        st->is_file = true;
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return rg__fail(RG_ERR_SYSTEM, "a pipe can't be made: %s",
                        strerror(errno));
    st->fd = ends[0];
    fcntl(st->fd, F_SETFL, O_NONBLOCK);
    return rg__loop_watch(s->a->loop, st->fd, EPOLLIN, on_readable, st);
}

rg_status rg__output_open(slot *s, int out[2], int err[2])
{
    s->output = calloc(1, sizeof *s->output);
    if (s->output == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker's output");
    s->output->out.fd = s->output->err.fd = -1;
    rg_status st = open_stream(s, &s->output->out, STDOUT_FILENO, "out", out);
    if (st == RG_OK)
        st = open_stream(s, &s->output->err, STDERR_FILENO, "err", err);
    return st;
}

void rg__output_close(slot *s)
{
    if (s->output == NULL)
        return;
    stream *both[2] = {&s->output->out, &s->output->err};
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 1024 && both[i]->fd >= 0; k++) {
            const size_t before = both[i]->n;
            if (!take(both[i]) || (both[i]->n == before && errno == EAGAIN))
                break;
        }
        close_stream(both[i]);
    }
    free(s->output);
    s->output = NULL;
}
