/* The reader of an output is killed after any instruction, system calls among
 * them: the next one finds each byte once in a file, and in a pipe at most one
 * line twice. A child is led through a whole output instruction by instruction;
 * behind each, copies of what is there are taken to its end.
 *
 * Covers: spool.c */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elastic/agent/output/spool.h"
#include "tests/check.h"

#define LINE_MAX_BYTES 40

static const char input[] = "one\ntwo, which is a little longer\n\nthree\n"
                            "four is the last that a newline ends\nfive";
#define INPUT_BYTES (sizeof input - 1)

typedef struct scene {
    rg__spool *spool;
    int pipe[2]; /* holds unread output, also that of dead writers */
    bool is_file;
    int out[2]; /* read here, written there; a file: twice the same */
} scene;

/* --------------------------------------------------- the reader of an
 * output */

static void print_next(const scene *s, const char *bytes, size_t n, bool is_end)
{
    const char *newline = memchr(bytes, '\n', n);
    if (!s->is_file && newline != NULL)
        n = (size_t)(newline + 1 - bytes);
    if (n > 0 && (s->is_file || newline != NULL || is_end))
        rg__spool_print(s->spool, n, bytes, n, s->out[1], s->is_file);
}

static void read_to_the_end(const scene *s)
{
    char bytes[RG__SPOOL_BYTES];
    for (bool is_end = false; !is_end || !rg__spool_is_empty(s->spool);) {
        rg__spool_write(s->spool, s->out[1], s->is_file);
        print_next(s, bytes, rg__spool_held(s->spool, bytes), is_end);
        if (s->spool->written == s->spool->printed && !is_end)
            is_end = rg__spool_read(s->spool, s->pipe[0]) == 0;
    }
}

/* ------------------------------------------------------------------ scenes */

static int make_file(const char *bytes, size_t n)
{
    const int fd = memfd_create("output", 0);
    CHECK(fd >= 0);
    CHECK_EQ(write(fd, bytes, n), (ssize_t)n);
    const int flags = fcntl(fd, F_GETFL);
    CHECK_EQ(fcntl(fd, F_SETFL, flags | O_APPEND), 0);
    return fd;
}

static void make_pipe(int ends[2], const char *bytes, size_t n)
{
    CHECK_EQ(pipe(ends), 0);
    CHECK_EQ(write(ends[1], bytes, n), (ssize_t)n);
}

static scene make_scene(rg__spool *spool, size_t left, bool is_file,
                        const char *written, size_t n)
{
    scene s = {.spool = spool, .is_file = is_file};
    make_pipe(s.pipe, input + INPUT_BYTES - left, left);
    close(s.pipe[1]);
    if (is_file)
        s.out[0] = s.out[1] = make_file(written, n);
    else
        make_pipe(s.out, "", 0);
    return s;
}

static void drop_scene(const scene *s)
{
    close(s->pipe[0]);
    close(s->out[0]);
    if (!s->is_file)
        close(s->out[1]);
}

static size_t left_in(int fd)
{
    int n = 0;
    CHECK_EQ(ioctl(fd, FIONREAD, &n), 0);
    return (size_t)n;
}

/* Append what has come out to n bytes; a file is read from its beginning. */
static size_t read_output(const scene *s, char *bytes, size_t n)
{
    if (s->is_file)
        return (size_t)pread(s->out[0], bytes, 4 * INPUT_BYTES, 0);
    const size_t more = left_in(s->out[0]);
    CHECK(n + more <= 4 * INPUT_BYTES);
    CHECK_EQ(read(s->out[0], bytes + n, more), (ssize_t)more);
    return n + more;
}

/* ----------------------------------------------------------------- the next */

/* Take a copy of what is there to its end. */
static void check_the_next(const scene *s, const char *written, size_t n)
{
    static rg__spool copy;
    static char all[4 * INPUT_BYTES];
    copy = *s->spool;
    const scene next =
        make_scene(&copy, left_in(s->pipe[0]), s->is_file, written, n);
    rg__spool_resume(&copy, next.out[1]);
    read_to_the_end(&next);
    CHECK(n <= INPUT_BYTES && memcmp(written, input, n) == 0);
    const size_t end = read_output(&next, all, 0);
    const size_t from = INPUT_BYTES - end;
    CHECK(end <= INPUT_BYTES && memcmp(all, input + from, end) == 0);
    CHECK(s->is_file ? from == 0 : from <= n && n - from <= LINE_MAX_BYTES);
    drop_scene(&next);
}

static pid_t start_reader(const scene *s)
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    raise(SIGSTOP);
    read_to_the_end(s);
    _exit(0);
}

static int wait_for(pid_t pid)
{
    int status = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP("ptrace is not permitted here");
    return status;
}

static void check_output(bool is_file)
{
    rg__spool *spool = mmap(NULL, sizeof *spool, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(spool != MAP_FAILED);
    /* The ring's end comes within a line. */
    spool->read = spool->reading = spool->printed = spool->written =
        3 * RG__SPOOL_BYTES - 17;
    const scene s = make_scene(spool, INPUT_BYTES, is_file, "", 0);
    const pid_t pid = start_reader(&s);
    char written[4 * INPUT_BYTES];
    size_t n = 0, steps = 0;
    int status = wait_for(pid);
    for (; WIFSTOPPED(status); status = wait_for(pid)) {
        n = read_output(&s, written, n);
        check_the_next(&s, written, n);
        CHECK_EQ(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
        steps++;
    }
    CHECK_EQ(status, 0);
    CHECK(steps > 1000);
    CHECK_EQ(read_output(&s, written, n), INPUT_BYTES);
    drop_scene(&s);
    munmap(spool, sizeof *spool);
}

int main(void)
{
    check_output(true);
    check_output(false);
    return 0;
}
