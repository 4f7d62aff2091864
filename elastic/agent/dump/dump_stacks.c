/* The stacks of other processes, by a process of its own, so that its waits
 * hold up no agent. C stacks come from eu-stack or gdb, whichever is installed
 * and permitted; otherwise the kernel says in what each thread waits. Tools of
 * all processes run at once, and are killed when they are late.
 *
 * A Python worker has offered a file and a signal on which it writes the stacks
 * of all of its threads there (Regroup's Python module): a memfd that is named
 * after the signal. */
#include "elastic/agent/dump/dump_parts.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/child.h"
#include "sdk/base/clock.h"

#define TOOL_NS     (5000 * RG__MS)
#define PYTHON_NS   (500 * RG__MS)
#define LOOK_MS     5
#define TEXT_MAX    ((size_t)256 << 10) /* of one process */
#define THREADS_MAX 256
#define PYTHON_FD   "/memfd:regroup-python-stacks-"

typedef struct look {
    pid_t pid, tool;
    int out; /* of the tool; -1: none */
} look;

/* ------------------------------------------------------------------- tools */

static void exec_tool(pid_t pid, int out)
{
    char number[16];
    char *const eu_stack[] = {"eu-stack", "-p", number, NULL};
    char *const gdb[] = {"gdb",
                         "-p",
                         number,
                         "-nx",
                         "-batch",
                         "-iex",
                         "set debuginfod enabled off",
                         "-ex",
                         "thread apply all bt 64",
                         NULL};
    snprintf(number, sizeof number, "%d", (int)pid);
    setpriority(PRIO_PROCESS, 0, 10); /* training goes on beside it */
    rg__child_ready(-1, out, -1);
    setenv("DEBUGINFOD_URLS", "", 1);
    execvp(eu_stack[0], eu_stack);
    execvp(gdb[0], gdb);
    _exit(127);
}

static void begin(look *l)
{
    l->out = memfd_create("stacks", MFD_CLOEXEC);
    l->tool = l->out >= 0 ? fork() : -1;
    if (l->tool == 0)
        exec_tool(l->pid, l->out);
}

static bool has_ended(look *l)
{
    if (l->tool > 0 && waitpid(l->tool, NULL, WNOHANG) != 0)
        l->tool = 0;
    return l->tool <= 0;
}

/* A process is let go when its tool is killed. */
static void await(look *l, uint64_t deadline_ns)
{
    while (!has_ended(l) && rg__now_ns() < deadline_ns)
        poll(NULL, 0, LOOK_MS);
    if (l->tool <= 0)
        return;
    kill(l->tool, SIGKILL);
    waitpid(l->tool, NULL, 0);
    l->tool = 0;
}

/* ------------------------------------------------------------------- files */

/* What a file holds from a place on, cut to TEXT_MAX; malloc'd, NULL: none. */
static char *read_from(int fd, off_t at)
{
    char *text = malloc(TEXT_MAX + 1);
    size_t n = 0;
    ssize_t got = 0;
    while (text != NULL && n < TEXT_MAX &&
           (got = pread(fd, text + n, TEXT_MAX - n, at + (off_t)n)) > 0)
        n += (size_t)got;
    if (text == NULL || n == 0) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    return text;
}

static char *read_path(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? read_from(fd, 0) : NULL;
    if (fd >= 0)
        close(fd);
    return text;
}

static char *read_line(const char *path)
{
    char *text = read_path(path);
    if (text != NULL)
        text[strcspn(text, "\n")] = '\0';
    return text;
}

/* ----------------------------------------------------- what the kernel says */

static void put_file(FILE *out, pid_t pid, const char *tid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/%s", (int)pid, tid, name);
    char *text = read_line(path);
    fprintf(out, " %s %s", name, text != NULL ? text : "?");
    free(text);
}

static void put_kernel_stack(FILE *out, pid_t pid, const char *tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/stack", (int)pid, tid);
    char *text = read_path(path);
    if (text != NULL)
        fprintf(out, "%s", text);
    free(text);
}

static char *kernel_text(pid_t pid)
{
    char path[32], *text = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    FILE *out = open_memstream(&text, &n);
    int threads = 0;
    if (dir != NULL && out != NULL)
        for (struct dirent *d;
             (d = readdir(dir)) != NULL && threads < THREADS_MAX;) {
            if (!isdigit((unsigned char)d->d_name[0]))
                continue;
            threads++;
            fprintf(out, "thread %.16s:", d->d_name);
            put_file(out, pid, d->d_name, "comm");
            put_file(out, pid, d->d_name, "wchan");
            put_file(out, pid, d->d_name, "syscall");
            fputc('\n', out);
            put_kernel_stack(out, pid, d->d_name);
        }
    if (dir != NULL)
        closedir(dir);
    if (out != NULL)
        fclose(out);
    return text;
}

/* ------------------------------------------------------------------ Python */

/* The descriptor in that process, and its signal; -1: it offers none. */
static int find_offer(pid_t pid, int *signal_p)
{
    char path[300], to[128];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    int found = -1;
    for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/fd/%s", (int)pid, d->d_name);
        const ssize_t n = readlink(path, to, sizeof to - 1);
        if (n <= 0)
            continue;
        to[n] = '\0';
        if (strncmp(to, PYTHON_FD, strlen(PYTHON_FD)) != 0)
            continue;
        *signal_p = atoi(to + strlen(PYTHON_FD));
        found = *signal_p >= SIGRTMIN && *signal_p <= SIGRTMAX
                    ? open(path, O_RDONLY | O_CLOEXEC)
                    : -1;
        break;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* A process that does not handle the signal would die of it. */
static bool handles(pid_t pid, int number)
{
    char path[32], *line = NULL;
    size_t room = 0;
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && getline(&line, &room, file) > 0)
        if (sscanf(line, "SigCgt: %llx", &caught) == 1)
            break;
    if (file != NULL)
        fclose(file);
    free(line);
    return (caught >> (number - 1) & 1) != 0;
}

static off_t size_of(int fd)
{
    struct stat at;
    return fstat(fd, &at) == 0 ? at.st_size : 0;
}

/* The handler writes all of it, so the text ends when no more comes. */
static char *python_text(pid_t pid)
{
    int number = 0;
    const int fd = find_offer(pid, &number);
    if (fd < 0)
        return NULL;
    const off_t before = size_of(fd);
    const uint64_t deadline = rg__now_ns() + PYTHON_NS;
    if (handles(pid, number) && kill(pid, number) == 0) {
        off_t seen = before;
        while (rg__now_ns() < deadline) {
            poll(NULL, 0, 4 * LOOK_MS);
            const off_t now = size_of(fd);
            if (now == seen && now > before)
                break;
            seen = now;
        }
    }
    char *text = read_from(fd, before);
    close(fd);
    return text;
}

/* ---------------------------------------------------------------- in whole */

static json_t *text_json(char *text)
{
    json_t *j = text != NULL ? json_string(text) : NULL;
    free(text);
    return j != NULL ? j : json_null();
}

static json_t *look_json(const look *l)
{
    json_t *j = json_object();
    char *text = l->out >= 0 ? read_from(l->out, 0) : NULL;
    const bool is_tool = text != NULL && strstr(text, "#0") != NULL;
    if (!is_tool) {
        free(text);
        text = kernel_text(l->pid);
    }
    json_object_set_new(j, "from", json_string(is_tool ? "tool" : "kernel"));
    json_object_set_new(j, "c", text_json(text));
    return j;
}

_Noreturn void rg__dump_stacks(const pid_t *pids, int n, int out)
{
    look all[RG__HOST_SLOTS_MAX] = {0};
    json_t *document = json_object(), *python[RG__HOST_SLOTS_MAX];
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(out, STDERR_FILENO + 1);
    close_range(STDERR_FILENO + 2, ~0u, 0);
    fcntl(STDERR_FILENO + 1, F_SETFD, FD_CLOEXEC);
    for (int i = 0; i < n; i++) /* before the process is stopped */
        python[i] = text_json(python_text(pids[i]));
    const uint64_t deadline = rg__now_ns() + TOOL_NS;
    for (int i = 0; i < n; i++) {
        all[i].pid = pids[i];
        begin(&all[i]);
    }
    for (int i = 0; i < n; i++) {
        char number[16];
        await(&all[i], deadline);
        json_t *j = look_json(&all[i]);
        json_object_set_new(j, "python", python[i]);
        snprintf(number, sizeof number, "%d", (int)pids[i]);
        json_object_set_new(document, number, j);
    }
    json_dumpfd(document, STDERR_FILENO + 1, 0);
    _exit(0);
}
