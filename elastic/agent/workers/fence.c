/* Can a process that is dying still store into shared memory? We ask /proc,
 * since the kernel frees gigabytes before it tells a parent or a pidfd. A
 * process can no longer store once none of its threads has an address space, or
 * once it is in a core dump.
 *
 * A process that can't be examined may store: only a kernel that says that it
 * does not exist (ENOENT, ESRCH) proves its end. An agent without a descriptor
 * to look with waits, and reports that like any wait. */
#include "elastic/agent/workers/workers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum outcome {
    SEEN,
    GONE,  /* there is no such process or thread */
    UNSEEN /* unknown */
} outcome;

static outcome outcome_of_error(void)
{
    return errno == ENOENT || errno == ESRCH ? GONE : UNSEEN;
}

static outcome read_proc(char *text, size_t room, const char *path)
{
    text[0] = '\0';
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return outcome_of_error();
    const ssize_t n = read(fd, text, room - 1);
    const outcome seen = n > 0 ? SEEN : n < 0 ? outcome_of_error() : UNSEEN;
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return seen;
}

/* A thread that has passed exit_mm has no address space: its statm is zeros. */
static bool thread_has_memory(pid_t pid, const char *tid)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/statm", pid, tid);
    const outcome seen = read_proc(text, sizeof text, path);
    return seen != GONE && strncmp(text, "0 ", 2) != 0;
}

bool rg__fence_is_dumping(const rg__worker *w)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", w->pid);
    return read_proc(text, sizeof text, path) == SEEN &&
           strstr(text, "CoreDumping:\t1") != NULL;
}

/* Of a `stat` in /proc. */
static char state_in(const char *stat)
{
    const char *name_end = strrchr(stat, ')');
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : '?';
}

char rg__fence_state(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    read_proc(text, sizeof text, path);
    return state_in(text);
}

/* While a process dumps core, the thread that was struck writes the dump in
 * the kernel, and the others wait for it there, in state D, never to return. */
static bool thread_waits_for_dump(pid_t pid, const char *tid, int32_t struck)
{
    char path[64], text[512];
    if (strtol(tid, NULL, 10) == struck)
        return true;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", pid, tid);
    return read_proc(text, sizeof text, path) == GONE || state_in(text) == 'D';
}

static bool thread_can_store(const rg__worker *w, const char *tid, bool dumps)
{
    if (!thread_has_memory(w->pid, tid))
        return false;
    return !dumps || !thread_waits_for_dump(w->pid, tid,
                                            atomic_load(&w->page->dying_tid));
}

static bool any_thread_can_store(const rg__worker *w, DIR *tasks)
{
    const bool dumps = w->is_crashed && rg__fence_is_dumping(w);
    errno = 0;
    for (const struct dirent *e = readdir(tasks); e != NULL;
         e = readdir(tasks)) {
        if (e->d_name[0] != '.' && thread_can_store(w, e->d_name, dumps))
            return true;
        errno = 0;
    }
    return errno != 0 && outcome_of_error() != GONE;
}

/* After SIGKILL, and in a core dump, no thread can be made: one look is
 * enough. */
bool rg__fence_can_store(const rg__worker *w)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", w->pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return outcome_of_error() != GONE;
    const bool can_store = any_thread_can_store(w, tasks);
    closedir(tasks);
    return can_store;
}
