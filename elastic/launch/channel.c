/* A process per host between the launcher and --rsh. */
#include "elastic/launch/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/agent/base/reap.h"
#include "sdk/base/child.h"
#include "sdk/base/fail.h"

#define LINE_BYTES 9216 /* the longest that an agent prints, with its label */

rg__channel_note *rg__channel_note_create(void)
{
    rg__channel_note *note = mmap(NULL, sizeof *note, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return note != MAP_FAILED ? note : NULL;
}

void rg__channel_note_destroy(rg__channel_note *note)
{
    if (note != NULL)
        munmap(note, sizeof *note);
}

/* One of the two streams that come back. */
typedef struct stream {
    int fd, to; /* fd -1: at its end */
    size_t n;
    char line[LINE_BYTES];
} stream;

typedef struct channel {
    const rg__channel_params *params;
    pid_t rsh;
    int signal_fd, in; /* in: to its standard input; -1: closed */
    char *unsent;      /* what has not gone there yet */
    size_t unsent_from, unsent_bytes;
    bool is_leaving;
    stream out, err;
    int status;
    bool has_ended;
} channel;

/* ------------------------------------------------------------- what it says */

static void write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        const ssize_t done = write(fd, bytes, n);
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        if (done < 0 && errno == EAGAIN)
            poll(&room, 1, -1);
        else if (done < 0 && errno != EINTR)
            return; /* no process reads any more */
        else if (done > 0) {
            bytes += done;
            n -= (size_t)done;
        }
    }
}

/* Agents and workers label their lines with their host themselves. */
static bool has_label(const char *line, const char *host)
{
    const size_t n = strlen(host);
    return strncmp(line, "[regroup ", 9) == 0 ||
           strncmp(line, "{\"time\":", 8) == 0 ||
           (strncmp(line, host, n) == 0 && line[n] == '.' &&
            strstr(line, " | ") != NULL);
}

/* What --rsh says before it reaches the host is for the launcher's sentence. */
static void note_said(channel *c, const char *line)
{
    char *said = c->params->note->said;
    size_t n = strlen(line);
    n -= n > 0 && line[n - 1] == '\r'; /* ssh ends its lines so */
    snprintf(said, RG__CHANNEL_SAID, "%.*s", (int)n, line);
    for (; *said != '\0'; said++)
        if ((unsigned char)*said < ' ' || (unsigned char)*said > '~')
            *said = '?';
}

static void print_line(channel *c, const stream *s, const char *line)
{
    char text[LINE_BYTES + RG__CHANNEL_SAID];
    const bool is_ours = has_label(line, c->params->host);
    const int n =
        snprintf(text, sizeof text, "%s%s%s\n", is_ours ? "" : c->params->host,
                 is_ours ? "" : " | ", line);
    write_all(s->to, text, (size_t)n);
}

static void take_line(channel *c, const stream *s, char *line)
{
    if (c->params->note->is_reached)
        print_line(c, s, line);
    else if (s == &c->out && strcmp(line, RG__CHANNEL_HELLO) == 0)
        c->params->note->is_reached = true;
    else if (line[strspn(line, " \t\r")] != '\0')
        note_said(c, line);
}

/* Lines that are whole, or too long, or the last. */
static void take_lines(channel *c, stream *s, bool is_last)
{
    char *from = s->line, *end;
    const char *stop = s->line + s->n;
    while ((end = memchr(from, '\n', (size_t)(stop - from))) != NULL) {
        *end = '\0';
        take_line(c, s, from);
        from = end + 1;
    }
    const size_t rest = (size_t)(stop - from);
    if (rest > 0 && (is_last || rest == sizeof s->line - 1)) {
        from[rest] = '\0';
        take_line(c, s, from);
        s->n = 0;
        return;
    }
    memmove(s->line, from, rest);
    s->n = rest;
}

/* false: there is nothing more to read now. */
static bool read_stream(channel *c, stream *s)
{
    if (s->fd < 0)
        return false;
    const ssize_t n = read(s->fd, s->line + s->n, sizeof s->line - 1 - s->n);
    if (n > 0) {
        s->n += (size_t)n;
        take_lines(c, s, false);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    take_lines(c, s, true);
    close(s->fd);
    s->fd = -1;
    return false;
}

/* ---------------------------------------------------------- what it is told */

static void hang_up(channel *c)
{
    if (c->in >= 0)
        close(c->in);
    c->in = -1;
    c->unsent_from = c->unsent_bytes;
}

static void send_unsent(channel *c)
{
    if (c->in < 0 || c->unsent_from == c->unsent_bytes)
        return;
    const ssize_t n = write(c->in, c->unsent + c->unsent_from,
                            c->unsent_bytes - c->unsent_from);
    if (n > 0)
        c->unsent_from += (size_t)n;
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        hang_up(c);
}

/* Sent behind the letter, however much of the letter has been sent. */
static void say_leave(channel *c)
{
    const size_t n = strlen(RG__LETTER_LEAVE);
    char *more = realloc(c->unsent, c->unsent_bytes + n);
    if (more == NULL) {
        hang_up(c);
        return;
    }
    memcpy(more + c->unsent_bytes, RG__LETTER_LEAVE, n);
    c->unsent = more;
    c->unsent_bytes += n;
}

static void take_signals(channel *c)
{
    struct signalfd_siginfo info;
    while (read(c->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            c->has_ended = waitpid(c->rsh, &c->status, WNOHANG) == c->rsh;
        else if (c->is_leaving)
            hang_up(c);
        else
            say_leave(c);
        c->is_leaving = c->is_leaving || info.ssi_signo != SIGCHLD;
    }
}

/* ------------------------------------------------------------------ --rsh */

static void quote(FILE *out, const char *word)
{
    fputc('\'', out);
    for (; *word != '\0'; word++)
        fputs(*word == '\'' ? "'\\''" : (char[2]){*word, '\0'}, out);
    fputc('\'', out);
}

/* "'/opt/regroup/bin/regroup' remote", for the shell on the other host. */
static char *make_command(const char *program)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (out == NULL)
        return NULL;
    quote(out, program);
    fputs(" remote", out);
    fclose(out);
    return text;
}

/* Without a terminal, so that nothing stops to ask for a password. */
static void become_rsh(const rg__channel_params *p, const int pipes[3][2],
                       pid_t parent)
{
    setsid();
    rg__child_follow(parent);
    rg__child_ready(pipes[0][0], pipes[1][1], pipes[2][1]);
    if (p->target == NULL) {
        execl(p->program, p->program, "remote", (char *)NULL);
        fprintf(stderr, "%s can't be executed: %s\n", p->program,
                strerror(errno));
        _exit(127);
    }
    char *command = make_command(p->program), *shell = NULL;
    if (command != NULL && asprintf(&shell, "exec %s \"$@\"", p->rsh) > 0)
        execl("/bin/sh", "sh", "-c", shell, "rsh", p->target, command,
              (char *)NULL);
    _exit(127);
}

static bool make_pipes(int pipes[3][2])
{
    for (int i = 0; i < 3; i++)
        if (pipe2(pipes[i], O_CLOEXEC) != 0)
            return false;
    return true;
}

static void never_wait(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static bool start_rsh(channel *c)
{
    int pipes[3][2];
    const pid_t parent = getpid();
    if (!make_pipes(pipes))
        return false;
    c->rsh = fork();
    if (c->rsh == 0)
        become_rsh(c->params, pipes, parent);
    if (c->rsh < 0)
        return false;
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    c->in = pipes[0][1];
    c->out.fd = pipes[1][0];
    c->err.fd = pipes[2][0];
    never_wait(c->in);
    never_wait(c->out.fd);
    never_wait(c->err.fd);
    return true;
}

/* ----------------------------------------------------------------- process */

static void turn(channel *c)
{
    const bool sends = c->in >= 0 && c->unsent_from < c->unsent_bytes;
    struct pollfd on[] = {{.fd = c->signal_fd, .events = POLLIN},
                          {.fd = c->out.fd, .events = POLLIN},
                          {.fd = c->err.fd, .events = POLLIN},
                          {.fd = sends ? c->in : -1, .events = POLLOUT}};
    poll(on, 4, -1);
    take_signals(c);
    send_unsent(c);
    read_stream(c, &c->out);
    read_stream(c, &c->err);
}

/* A terminal may have `stty tostop`, and we are not in the foreground. */
static void watch_signals(channel *c)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTTOU);
    sigprocmask(SIG_BLOCK, &set, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* A process that --rsh leaves behind may hold its output open forever: read
 * what is there, and wait for no more. */
static int become_channel(channel *c)
{
    close_range(STDERR_FILENO + 1, ~0U, 0); /* the locks of the job, too */
    signal(SIGPIPE, SIG_IGN);
    watch_signals(c);
    if (c->signal_fd < 0 || !start_rsh(c)) {
        note_said(c, strerror(errno));
        return 255;
    }
    while (!c->has_ended)
        turn(c);
    while (read_stream(c, &c->out) || read_stream(c, &c->err))
        ;
    take_lines(c, &c->out, true);
    take_lines(c, &c->err, true);
    return rg__code_of(c->status);
}

rg_status rg__channel_start(const rg__channel_params *params, pid_t *pid_p)
{
    const pid_t parent = getpid();
    channel c = {.params = params,
                 .in = -1,
                 .out = {.fd = -1, .to = STDOUT_FILENO},
                 .err = {.fd = -1, .to = STDERR_FILENO}};
    c.unsent = rg__letter_seal(params->letter, &c.unsent_bytes);
    if (c.unsent == NULL)
        return rg__fail(RG_ERR_MEMORY,
                        "what host %s is to be told is too long: arguments and "
                        "environment (-x) may have 8 MiB",
                        params->host);
    *params->note = (rg__channel_note){0};
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0); /* Ctrl-C is for the launcher */
        rg__child_follow(parent);
        _exit(become_channel(&c));
    }
    free(c.unsent);
    if (pid < 0)
        return rg__fail(RG_ERR_SYSTEM, "no process to reach host %s: %s",
                        params->host, strerror(errno));
    *pid_p = pid;
    return RG_OK;
}
