/* Processes of launches on this host: below our supervisor, which is the parent
   of all orphans, each process that has the mark of a launch and this agent's
   socket in its environment, and all that it has started.
 */
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/workers/workers.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENVIRON_MAX ((size_t)256 << 10)
#define LIST_MAX    4096 /* bytes of children of one thread */

typedef struct node {
    pid_t pid;
    bool is_marked;
} node;

/* The tree, breadth first. */
typedef struct tree {
    node *of;
    int n, room;
    char *text;       /* ENVIRON_MAX bytes */
    char socket[160]; /* the variable that names ours */
    bool has_failed;
} tree;

static void add(tree *t, pid_t pid, bool is_marked)
{
    if (t->n == t->room) {
        const int room = t->room > 0 ? 2 * t->room : 64;
        node *more = realloc(t->of, sizeof *more * (size_t)room);
        if (more == NULL) {
            t->has_failed = true;
            return;
        }
        t->of = more;
        t->room = room;
    }
    t->of[t->n++] = (node){pid, is_marked};
}

static size_t read_file(const char *path, char *to, size_t room)
{
    size_t n = 0;
    ssize_t got;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    while (n < room && (got = read(fd, to + n, room - n)) > 0)
        n += (size_t)got;
    close(fd);
    return n;
}

static void add_children_of_thread(tree *t, const node *of, const char *thread)
{
    char path[64], list[LIST_MAX + 1];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", of->pid,
             thread);
    list[read_file(path, list, LIST_MAX)] = '\0';
    for (char *at = list, *end; *at != '\0'; at = end) {
        const long pid = strtol(at, &end, 10);
        if (end == at)
            return;
        if (pid > 1)
            add(t, (pid_t)pid, of->is_marked);
    }
}

static void add_children(tree *t, int i)
{
    char path[32];
    const node of = t->of[i];
    snprintf(path, sizeof path, "/proc/%d/task", of.pid);
    DIR *threads = opendir(path);
    for (const struct dirent *one;
         threads != NULL && (one = readdir(threads)) != NULL;)
        if (one->d_name[0] != '.')
            add_children_of_thread(t, &of, one->d_name);
    if (threads != NULL)
        closedir(threads);
}

/* A variable that begins so, or is so. */
static bool has_variable(const char *text, size_t n, const char *begins,
                         size_t bytes)
{
    for (const char *at = text, *end = text + n; at + bytes <= end; at++) {
        if (memcmp(at, begins, bytes) == 0)
            return true;
        at = memchr(at, '\0', (size_t)(end - at));
        if (at == NULL)
            return false;
    }
    return false;
}

/* Below one supervisor there may be another agent's launch, where the launcher
 * of a job has started an agent on its own host. One that has ended has no
 * variables. */
static bool bears_mark(tree *t, pid_t pid)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    const size_t n = read_file(path, t->text, ENVIRON_MAX);
    return has_variable(t->text, n, RG__ENV_LAUNCH "=",
                        strlen(RG__ENV_LAUNCH "=")) &&
           has_variable(t->text, n, t->socket, strlen(t->socket) + 1);
}

/* "pid (name) S ..." */
static bool has_ended(pid_t pid)
{
    char path[32], stat[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    stat[read_file(path, stat, sizeof stat - 1)] = '\0';
    const char *state = strrchr(stat, ')');
    return state == NULL || strchr("ZX", state[2]) != NULL;
}

/* It waits for its rank, to say how that has ended. */
static bool is_shim(pid_t pid)
{
    char path[32], line[4096];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    const size_t n = read_file(path, line, sizeof line - 1);
    line[n] = '\0';
    const size_t first = strlen(line) + 1;
    return first < n && strcmp(line + first, RG__CMD_RANK) == 0;
}

/* Our own processes have no mark, and their children are looked at. */
static int kill_marked(tree *t, bool spares_shims, pid_t *left_p)
{
    int found = 0;
    for (int i = 0; i < t->n; i++) {
        node *one = &t->of[i];
        if (one->pid != getpid() && one->pid != getppid() && !one->is_marked)
            one->is_marked = bears_mark(t, one->pid);
        add_children(t, i);
        one = &t->of[i];
        if (!one->is_marked || has_ended(one->pid))
            continue;
        found++;
        *left_p = one->pid;
        if (!spares_shims || !is_shim(one->pid))
            kill(one->pid, SIGKILL);
    }
    return found;
}

int rg__sweep_kill(const rg__agent *a, bool spares_shims, pid_t *left_p)
{
    const pid_t supervisor = getppid();
    tree t = {.text = malloc(ENVIRON_MAX)};
    int found = 1;
    *left_p = 0;
    snprintf(t.socket, sizeof t.socket, RG__ENV_SOCKET "=%s",
             rg__workers_socket(a));
    if (t.text != NULL) {
        add(&t, supervisor > 1 ? supervisor : getpid(), false);
        found = kill_marked(&t, spares_shims, left_p);
    }
    free(t.text);
    free(t.of);
    return t.has_failed ? 1 : found;
}
