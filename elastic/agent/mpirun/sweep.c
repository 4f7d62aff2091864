/* Processes of launches on this host: below our supervisor, which is the parent
   of all orphans, each process that has the mark of a launch and this agent's
   socket in its environment, and all that it has started.
 */
#include "elastic/agent/mpirun/mpirun_parts.h"
#include "elastic/agent/workers/workers.h"
#include "sdk/base/grow.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct node {
    pid_t pid;
    bool is_marked;
} node;

/* The tree, breadth first. */
typedef struct tree {
    node *of;
    int n;
    char *text; /* a variable */
    size_t bytes;
    char socket[160]; /* the variable that names ours */
    bool has_failed;
} tree;

static void add(tree *t, pid_t pid, bool is_marked)
{
    node *one = rg__grow(&t->of, (size_t)t->n, sizeof *one);
    t->has_failed |= one == NULL;
    if (one == NULL)
        return;
    *one = (node){pid, is_marked};
    t->n++;
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
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", of->pid,
             thread);
    FILE *in = fopen(path, "re");
    while (in != NULL && fscanf(in, "%d", &pid) == 1)
        add(t, pid, of->is_marked);
    if (in != NULL)
        fclose(in);
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

/* Another agent's launch may run below the same supervisor, if a launcher has
 * started an agent on its own host. An ended process has no variables. */
static bool bears_mark(tree *t, pid_t pid)
{
    static const char mark[] = RG__ENV_LAUNCH "=";
    char path[32];
    bool is_launch = false, is_ours = false;
    snprintf(path, sizeof path, "/proc/%d/environ", pid);
    FILE *in = fopen(path, "re");
    while (in != NULL && getdelim(&t->text, &t->bytes, '\0', in) > 0) {
        is_launch |= strncmp(t->text, mark, sizeof mark - 1) == 0;
        is_ours |= strcmp(t->text, t->socket) == 0;
    }
    if (in != NULL)
        fclose(in);
    return is_launch && is_ours;
}

static bool has_ended(pid_t pid)
{
    return strchr("ZX?", rg__fence_state(pid)) != NULL;
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

/* It may dump core, and is ended by the rules of its slot. */
static bool has_crashed(const rg__agent *a, pid_t pid)
{
    for (int i = 0; i < a->params->slots; i++) {
        const rg__slot *s = &a->slot[i];
        if (s->w.is_crashed && (pid == s->saved.child || pid == s->w.pid))
            return true;
    }
    return false;
}

/* Our own processes have no mark, and their children are looked at. */
static int kill_marked(const rg__agent *a, tree *t, bool spares_shims,
                       pid_t spared, pid_t *left_p)
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
        if (one->pid != spared && (!spares_shims || !is_shim(one->pid)) &&
            !has_crashed(a, one->pid))
            kill(one->pid, SIGKILL);
    }
    return found;
}

int rg__sweep_kill(const rg__agent *a, bool spares_shims, pid_t spared,
                   pid_t *left_p)
{
    const pid_t supervisor = getppid();
    tree t = {0};
    *left_p = 0;
    snprintf(t.socket, sizeof t.socket, RG__ENV_SOCKET "=%s",
             rg__workers_socket(a));
    add(&t, supervisor > 1 ? supervisor : getpid(), false);
    const int found = kill_marked(a, &t, spares_shims, spared, left_p);
    free(t.text);
    free(t.of);
    return t.has_failed ? 1 : found;
}
