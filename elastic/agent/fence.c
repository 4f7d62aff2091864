/* Can a process that is dying still store into shared memory? Asked of /proc,
 * since the kernel frees gigabytes before it tells a parent or a pidfd. A
 * process can't once none of its threads has an address space left, or once it
 * sits in a core dump. */
#include "elastic/agent/inside.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_proc(char *text, size_t room, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, text, room - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

/* A thread that has passed exit_mm has no address space: its statm is zeros. */
static bool thread_has_memory(pid_t pid, const char *tid)
{
    char path[64], text[64];
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/statm", pid, tid);
    return read_proc(text, sizeof text, path) && strncmp(text, "0 ", 2) != 0;
}

bool rg__fence_is_dumping(const worker *w)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", w->pid);
    return read_proc(text, sizeof text, path) &&
           strstr(text, "CoreDumping:\t1") != NULL;
}

char rg__fence_state(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    const bool is_read = read_proc(text, sizeof text, path);
    const char *name_end = is_read ? strrchr(text, ')') : NULL;
    return name_end != NULL && name_end[1] == ' ' ? name_end[2] : '?';
}

/* While a process dumps core, the thread that was struck writes the dump in
 * the kernel, and the others wait for it there, in state D, never to return. */
static bool thread_waits_for_dump(pid_t pid, const char *tid, int32_t struck)
{
    char path[64], text[512];
    if (strtol(tid, NULL, 10) == struck)
        return true;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", pid, tid);
    if (!read_proc(text, sizeof text, path))
        return true;
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && strncmp(name_end, ") D", 3) == 0;
}

static bool thread_can_store(const worker *w, const char *tid, bool dumps)
{
    if (!thread_has_memory(w->pid, tid))
        return false;
    return !dumps || !thread_waits_for_dump(w->pid, tid,
                                            atomic_load(&w->page->dying_tid));
}

/* After SIGKILL, and in a core dump, no thread can be made: one look at all of
 * them is enough. */
bool rg__fence_can_store(const worker *w)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", w->pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return false;
    const bool dumps = w->is_crashed && rg__fence_is_dumping(w);
    bool found = false;
    for (struct dirent *e = readdir(tasks); e != NULL && !found;
         e = readdir(tasks))
        found = e->d_name[0] != '.' && thread_can_store(w, e->d_name, dumps);
    closedir(tasks);
    return found;
}
