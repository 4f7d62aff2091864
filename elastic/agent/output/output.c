/* What workers print: line by line to our own output with the worker's name
 * and rank before it, or unchanged into files, one per process started. They
 * print into pipes; where our standard output is a terminal, theirs is one, so
 * that a program does as it does in a shell (colours, and lines at once).
 *
 * Our own output may be a pipe that is not read for a while (a pager): then the
 * worker's pipe is left alone until ours takes bytes again, and the agent goes
 * on with everything else; so it does after each read of a program that prints
 * without end. A pipe takes a long line in parts: until all of it is written no
 * other line goes there. An output outlives its process until it is written,
 * and what was read of it outlives the agent: that is in a spool, and the
 * supervisor holds the pipe's end. */
#include "elastic/agent/output/output.h"
#include "elastic/agent/output/spool.h"
#include "elastic/agent/base/exits.h"
#include "elastic/agent/base/view.h"
#include "elastic/agent/supervisor/fdstore.h"
#include "elastic/agent/supervisor/fdrecord.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "sdk/base/chain.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/log.h"
#include "sdk/base/shm.h"

#define HEAD_MAX_BYTES 120
#define STALL_NS       (10 * RG__MS)
#define TERMINAL_BYTES (128 * 1024) /* more than the kernel holds of one */

/* In memory that the next agent is handed. */
typedef struct spools {
    rg__spool out, err;
    int rank; /* of its worker when a line was printed last, -1: none */
} spools;

typedef struct stream {
    rg__output *of;
    int fd;       /* the end here of a pipe or terminal, -1: at its end */
    ssize_t left; /* in it when its process had ended: descendants may go on */
    int to;       /* where it goes */
    bool is_file;
    rg__timer *again;
    rg__spool *spool;
    struct stream **turn; /* the output that is within a line there; NULL: a
                             file */
    bool is_with_log;     /* there the agent's own lines go as well */
    bool has_lost;        /* and it was said */
} stream;

struct rg__printer {
    rg__output *outputs;      /* of processes, until all is written */
    struct stream *within[2]; /* a line on our standard output, error */
    bool has_no_output_dir;   /* said once */
};

struct rg__output {
    rg__output *next; /* of the agent's list */
    rg__agent *a;
    char name[RG__NAME_MAX + 16];
    rg__member_id who;
    bool is_closing; /* the process has ended */
    stream out, err;
    spools *spools;
    int spools_fd;
};

/* ------------------------------------------------------------ a full disk */

static void name_file(const rg__output *o, const char *what,
                      char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s.%u.%s", o->a->params->output_dir, o->name,
             o->who.start, what);
}

/* Once for each stream; not at all for a reader that has gone away. */
static void tell_loss(stream *st)
{
    const bool is_out = st == &st->of->out;
    char path[PATH_MAX] = "";
    if (st->spool->error == 0 || st->has_lost)
        return;
    st->has_lost = true;
    if (st->spool->error == EPIPE)
        return;
    if (st->is_file)
        name_file(st->of, is_out ? "out" : "err", path);
    rg__log(RG__WARN, "agent",
            "%s can't be written: %s; what %s prints there is lost until it "
            "can, training goes on",
            st->is_file ? path
            : is_out    ? "standard output"
                        : "standard error",
            strerror(st->spool->error), st->of->name);
}

/* --------------------------------------------------------------- long lines */

static void set_turn(const stream *st, stream *within)
{
    *st->turn = within;
    if (st->is_with_log)
        rg__log_within(within != NULL);
}

static void note_turn(stream *st)
{
    if (st->turn != NULL)
        set_turn(st, rg__spool_is_within(st->spool) ? st : NULL);
}

/* false: stalled, or another one is within its line. */
static bool write_text(stream *st)
{
    if (st->turn != NULL && *st->turn != NULL && *st->turn != st)
        return false;
    const bool is_written = rg__spool_write(st->spool, st->to, st->is_file);
    note_turn(st);
    tell_loss(st);
    return is_written;
}

/* --------------------------------------------------------------- one stream */

/* A worker's log line that names its worker; a prefix would spoil the JSON. */
static bool is_log_line(const char *text, size_t n)
{
    static const char start[] = "{\"time\":\"";
    return rg__log_is_json() && n > sizeof start && text[n - 1] == '}' &&
           memcmp(text, start, sizeof start - 1) == 0;
}

/* "host.slot rRANK | " */
static size_t write_head(const rg__output *o, char head[HEAD_MAX_BYTES])
{
    char rank[16] = "-";
    if (!rg__life_takes_over(o->a))
        o->spools->rank = rg__proposal_rank(rg__view_decided(o->a), o->who);
    if (o->spools->rank >= 0)
        snprintf(rank, sizeof rank, "%d", o->spools->rank);
    return (size_t)snprintf(head, HEAD_MAX_BYTES, "%s r%s | ", o->name, rank);
}

/* The first n bytes as a line, with `skip` more that end it. */
static void print_line(stream *st, const char *line, size_t n, size_t skip)
{
    char text[RG__SPOOL_TEXT_MAX];
    const bool is_bare = !st->of->a->params->is_tagged || is_log_line(line, n);
    size_t end = is_bare ? 0 : write_head(st->of, text);
    memcpy(text + end, line, n);
    end += n;
    text[end++] = '\n';
    rg__spool_print(st->spool, n + skip, text, end, st->to, false);
}

/* false: nothing to print before more is read. */
static bool print_next(stream *st)
{
    char bytes[RG__SPOOL_BYTES];
    const size_t n = rg__spool_held(st->spool, bytes);
    const char *newline = memchr(bytes, '\n', n);
    if (n == 0)
        return false;
    if (st->is_file)
        rg__spool_print(st->spool, n, bytes, n, st->to, true);
    else if (newline != NULL)
        print_line(st, bytes, (size_t)(newline - bytes), 1);
    else if (n == sizeof bytes)
        print_line(st, bytes, n - 1, 0); /* a newline never comes alone */
    else if (st->fd < 0)
        print_line(st, bytes, n, 0);
    else
        return false;
    return true;
}

/* false: stalled. An output within a line then lets others go first. */
static bool write_out(stream *st)
{
    const bool was_within = rg__spool_is_within(st->spool);
    do
        if (!write_text(st))
            return false;
    while (!was_within && print_next(st));
    return !was_within;
}

/* One read: a program that prints without end would hold up the others. */
static void take(stream *st)
{
    const bool is_closing = st->of->is_closing;
    const ssize_t got = rg__spool_read(st->spool, st->fd);
    if (got > 0)
        st->left -= got < st->left ? got : st->left;
    const bool is_empty = got < 0 && (errno == EAGAIN || errno == EINTR);
    if ((got <= 0 && !is_empty) || (is_closing && (is_empty || st->left == 0)))
        rg__loop_close(st->of->a->loop, &st->fd);
}

static void on_readable(void *arg, int fd, uint32_t events);
static void drop_if_written(rg__output *o);

/* What was read is written before more is read. */
static void pump(stream *st)
{
    bool is_stalled = !write_out(st);
    if (!is_stalled && st->fd >= 0) {
        take(st);
        is_stalled = !write_out(st);
    }
    if (is_stalled && st->fd >= 0)
        rg__loop_unwatch(st->of->a->loop, st->fd);
    else if (st->fd >= 0)
        rg__loop_watch(st->of->a->loop, st->fd, EPOLLIN, on_readable, st);
    if (is_stalled)
        rg__timer_set(st->again, STALL_NS);
    else if (st->of->is_closing && st->fd >= 0)
        rg__timer_set(st->again, 0);
}

static void on_readable(void *arg, int fd, uint32_t events)
{
    (void)fd, (void)events;
    stream *st = arg;
    pump(st);
    drop_if_written(st->of);
}

static void on_again(void *arg)
{
    stream *st = arg;
    pump(st);
    drop_if_written(st->of);
}

/* ---------------------------------------------------------------- an output */

static void close_stream(stream *st)
{
    rg__loop_close(st->of->a->loop, &st->fd);
    if (st->is_file && st->to >= 0)
        close(st->to);
    rg__timer_destroy(st->again);
    if (st->turn != NULL && *st->turn == st)
        set_turn(st, NULL);
}

static bool is_written(const stream *st)
{
    return st->fd < 0 && rg__spool_is_empty(st->spool);
}

static void drop(rg__output *o)
{
    rg__chain_remove(&o->a->printer->outputs, o);
    close_stream(&o->out);
    close_stream(&o->err);
    rg__shm_unmap(o->spools, sizeof *o->spools);
    if (o->spools_fd >= 0)
        close(o->spools_fd);
    free(o);
}

static rg__fdrecord_name name_of(const rg__output *o)
{
    return rg__fdrecord_name_as("output/%u.%u", o->who.slot, o->who.start);
}

static void drop_if_written(rg__output *o)
{
    if (!o->is_closing || !is_written(&o->out) || !is_written(&o->err))
        return;
    rg__agent *a = o->a;
    rg__fdstore_drop(a->fdstore, name_of(o).text);
    drop(o);
    a->on->settled(a);
}

/* Written or not. */
static void drop_all(rg__agent *a)
{
    while (a->printer->outputs != NULL)
        drop(a->printer->outputs);
}

/* A file in a directory that may have gone; without one the output is lost, and
 * the program runs. A lack of descriptors passes, and loses nothing. */
static rg_status open_file(const rg__output *o, const char *what, int *fd_p)
{
    static const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    rg__agent *a = o->a;
    char path[PATH_MAX];
    name_file(o, what, path);
    *fd_p = open(path, flags, 0644);
    if (*fd_p < 0 && errno == ENOENT && mkdir(a->params->output_dir, 0777) == 0)
        *fd_p = open(path, flags, 0644);
    const bool is_there = *fd_p >= 0;
    const int cause = errno;
    if (!is_there && cause != EMFILE && cause != ENFILE)
        *fd_p = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (*fd_p < 0)
        return rg__fail(RG_ERR_SYSTEM,
                        "%s can't be opened for a worker's output: %s", path,
                        strerror(cause));
    if (!is_there && !a->printer->has_no_output_dir)
        rg__log(RG__WARN, "agent",
                "%s can't be opened: %s; what workers print is lost until "
                "files can be opened there again, training goes on",
                path, strerror(cause));
    a->printer->has_no_output_dir = !is_there;
    return RG_OK;
}

static bool are_same(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Standard error may well be the pipe that standard output is. */
static stream **turn_at(rg__agent *a, int own)
{
    return &a->printer->within[own == STDERR_FILENO &&
                               !are_same(STDOUT_FILENO, STDERR_FILENO)];
}

static rg_status open_stream(rg__output *o, stream *st, int own,
                             const char *what)
{
    *st = (stream){.of = o,
                   .fd = -1,
                   .to = own,
                   .spool = own == STDOUT_FILENO ? &o->spools->out
                                                 : &o->spools->err};
    st->again = rg__timer_create(o->a->loop, on_again, st);
    if (st->again == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker's output");
    if (o->a->params->output_dir == NULL) {
        st->turn = turn_at(o->a, own);
        st->is_with_log = st->turn == turn_at(o->a, STDERR_FILENO);
        return RG_OK;
    }
    st->is_file = open_file(o, what, &st->to) == RG_OK;
    return st->is_file ? RG_OK : RG_ERR_SYSTEM;
}

/* A terminal of the worker's own, as wide as ours, and not the controlling one
 * of any process. Bytes come as they were written. */
static bool make_terminal(int own, int ends[2])
{
    struct winsize size;
    struct termios mode;
    ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ends[0] < 0)
        return false;
    ends[1] = unlockpt(ends[0]) == 0
                  ? ioctl(ends[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)
                  : -1;
    if (ends[1] < 0 || tcgetattr(ends[1], &mode) != 0) {
        close(ends[0]);
        if (ends[1] >= 0)
            close(ends[1]);
        return false;
    }
    mode.c_oflag &= (tcflag_t)~OPOST;
    tcsetattr(ends[1], TCSANOW, &mode);
    if (ioctl(own, TIOCGWINSZ, &size) == 0)
        ioctl(ends[1], TIOCSWINSZ, &size);
    return true;
}

static bool is_terminal(const stream *st)
{
    return st == &st->of->out && !st->is_file && isatty(st->to);
}

static rg_status open_pipe(stream *st, int ends[2])
{
    if (!(is_terminal(st) && make_terminal(st->to, ends)) &&
        pipe2(ends, O_CLOEXEC) != 0)
        return rg__fail(RG_ERR_SYSTEM, "a pipe can't be made: %s",
                        strerror(errno));
    st->fd = ends[0];
    fcntl(st->fd, F_SETFL, O_NONBLOCK);
    return rg__loop_watch(st->of->a->loop, st->fd, EPOLLIN, on_readable, st);
}

/* In the agent's list, where it is found and dropped even when half built. */
static rg__output *add_output(rg__agent *a, rg__member_id who)
{
    rg__output *o = calloc(1, sizeof *o);
    if (o == NULL)
        return NULL;
    o->a = a;
    o->who = who;
    o->out.fd = o->err.fd = o->out.to = o->err.to = o->spools_fd = -1;
    snprintf(o->name, sizeof o->name, "%s.%u", a->params->host, who.slot);
    o->next = a->printer->outputs;
    a->printer->outputs = o;
    return o;
}

static rg_status open_streams(rg__output *o)
{
    void *at = NULL;
    rg_status st = rg__shm_map(o->spools_fd, sizeof *o->spools, &at);
    if (st != RG_OK)
        return st;
    o->spools = at;
    st = open_stream(o, &o->out, STDOUT_FILENO, "out");
    return st == RG_OK ? open_stream(o, &o->err, STDERR_FILENO, "err") : st;
}

static rg_status open_output(rg__output *o, int out[2], int err[2])
{
    rg_status st =
        rg__shm_create("output", sizeof *o->spools, true, &o->spools_fd);
    if (st == RG_OK)
        st = open_streams(o);
    if (st != RG_OK)
        return st;
    o->spools->rank = -1;
    st = open_pipe(&o->out, out);
    return st == RG_OK ? open_pipe(&o->err, err) : st;
}

rg_status rg__output_open(rg__slot *s, int out[2], int err[2])
{
    rg__output *o =
        add_output(s->a, (rg__member_id){s->a->id, s->index, s->saved.start});
    if (o == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a worker's output");
    out[1] = err[1] = -1;
    const rg_status st = open_output(o, out, err);
    if (st != RG_OK) {
        drop(o);
        if (out[1] >= 0)
            close(out[1]);
        if (err[1] >= 0)
            close(err[1]);
        return st;
    }
    s->output = o;
    const int fds[] = {o->out.fd, o->err.fd, o->spools_fd};
    rg__fdstore_put(s->a->fdstore, name_of(o).text, &o->who, sizeof o->who, fds,
                    3);
    return RG_OK;
}

/* The kernel does not tell everything about a terminal; a line without an end
 * is cut off there. */
static ssize_t bytes_in(int fd)
{
    int n = 0;
    if (isatty(fd))
        return TERMINAL_BYTES;
    return ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}

static void begin_closing(rg__output *o)
{
    o->is_closing = true;
    o->out.left = bytes_in(o->out.fd);
    o->err.left = bytes_in(o->err.fd);
}

void rg__output_close(rg__slot *s)
{
    rg__output *o = s->output;
    if (o == NULL)
        return;
    s->output = NULL;
    begin_closing(o);
    pump(&o->out);
    pump(&o->err);
    drop_if_written(o);
}

/* ------------------------------------------------------ of an earlier agent */

/* A line that was written in part goes first. */
static void resume_stream(stream *st)
{
    rg__spool_resume(st->spool, st->to);
    st->has_lost = st->spool->error != 0;
    if (rg__spool_is_within(st->spool))
        note_turn(st);
}

static void resume_output(rg__agent *a, rg__fdrecord *record)
{
    rg__member_id who;
    memcpy(&who, record->bytes, sizeof who);
    rg__output *o = add_output(a, who);
    if (o == NULL)
        return;
    o->spools_fd = rg__fdrecord_take(record, 2);
    if (open_streams(o) != RG_OK) {
        rg__log(RG__WARN, "agent", "output of %s is lost: %s", o->name,
                rg_last_error());
        drop(o);
        return;
    }
    resume_stream(&o->out);
    resume_stream(&o->err);
    o->out.fd = rg__fdrecord_take(record, 0);
    o->err.fd = rg__fdrecord_take(record, 1);
    rg__slot *s = rg__slot_of(a, who);
    if (s == NULL || s->saved.child == 0)
        begin_closing(o);
    else
        s->output = o;
    rg__timer_set(o->out.again, 0);
    rg__timer_set(o->err.again, 0);
}

void rg__outputs_resume(rg__agent *a)
{
    const rg__fdrecord_list *all = rg__fdstore_born_with(a->fdstore);
    for (rg__fdrecord *k = rg__fdrecord_next(all, "output/", NULL); k != NULL;
         k = rg__fdrecord_next(all, "output/", k))
        if (k->n == sizeof(rg__member_id))
            resume_output(a, k);
}

bool rg__outputs_are_open(const rg__agent *a)
{
    return a->printer->outputs != NULL;
}

rg_status rg__printer_create(rg__agent *a)
{
    a->printer = calloc(1, sizeof *a->printer);
    return rg__agent_made(a->printer != NULL);
}

void rg__printer_destroy(rg__agent *a)
{
    if (a->printer != NULL)
        drop_all(a);
    free(a->printer);
}
