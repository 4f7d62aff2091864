/* A process can store until the kernel says that it can't: while it lives,
 * while one of its threads lives, and while it can't be examined. A zombie
 * can't, nor a process that has gone or is in a core dump.
 *
 * Covers: fence.c */
#include "tests/agent/agents.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sdk/base/clock.h"

#define PATIENCE_NS (20000 * RG__MS)

static rg__page *page; /* shared with the children */

static pid_t start(void (*work)(void))
{
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    _exit(0);
}

static void live(void)
{
    for (;;)
        pause();
}

static void end_at_once(void)
{
}

static void *live_on(void *arg)
{
    (void)arg;
    live();
    return NULL;
}

/* The leader is a zombie, the other thread lives. */
static void end_main_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, live_on, NULL) == 0)
        syscall(SYS_exit, 0);
}

static void wait_state(pid_t pid, char state)
{
    const uint64_t until = rg__now_ns() + PATIENCE_NS;
    while (rg__fence_state(pid) != state) {
        CHECK(rg__now_ns() < until);
        usleep(100);
    }
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

static bool can_store(pid_t pid)
{
    const rg__worker w = {.pid = pid, .page = page};
    return rg__fence_can_store(&w);
}

static void a_living_process_can(void)
{
    const pid_t pid = start(live);
    CHECK(can_store(pid));
    end(pid);
    CHECK(!can_store(pid)); /* it is gone */
}

static void a_zombie_can_not(void)
{
    const pid_t pid = start(end_at_once);
    wait_state(pid, 'Z');
    CHECK(!can_store(pid));
    end(pid);
}

static void a_thread_behind_a_zombie_can(void)
{
    const pid_t pid = start(end_main_thread);
    wait_state(pid, 'Z');
    CHECK(can_store(pid));
    end(pid);
}

static void unreadable_process_can(void)
{
    struct rlimit before, none;
    const pid_t pid = start(end_at_once);
    wait_state(pid, 'Z');
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK(can_store(pid));
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK(!can_store(pid));
    end(pid);
}

/* One descriptor is left for the directory, and none for its files. */
static void with_unreadable_threads_can(void)
{
    struct rlimit before, one;
    const pid_t pid = start(end_at_once);
    wait_state(pid, 'Z');
    const int next = dup(STDERR_FILENO);
    CHECK(next >= 0);
    close(next);
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    one = (struct rlimit){(rlim_t)next + 1, before.rlim_max};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &one), 0);
    CHECK(can_store(pid));
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    end(pid);
}

#define BALLAST ((size_t)192 << 20) /* takes a while to be dumped */

static void crash(void)
{
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    core.rlim_cur = core.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
    prctl(PR_SET_DUMPABLE, 1);
    char *at = mmap(NULL, BALLAST, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return;
    memset(at, 1, BALLAST);
    signal(SIGSEGV, SIG_DFL); /* a sanitizer has it */
    atomic_store(&page->dying_tid, (int32_t)syscall(SYS_gettid));
    raise(SIGSEGV);
}

/* Where the machine dumps cores at all. */
static void a_dumping_process_can_not(void)
{
    bool has_dumped = false;
    rg__worker w = {.page = page, .is_crashed = true};
    w.pid = start(crash);
    while (rg__fence_state(w.pid) != 'Z' && !has_dumped)
        has_dumped = rg__fence_is_dumping(&w);
    if (has_dumped) {
        const bool can = rg__fence_can_store(&w);
        w.is_crashed = false; /* no sign of a core dump */
        const bool can_otherwise = rg__fence_can_store(&w);
        CHECK(!rg__fence_is_dumping(&w) || (!can && can_otherwise));
    }
    end(w.pid);
}

/* Remove cores; their names depend on the machine. */
static void clear(const char *folder)
{
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    CHECK_EQ(rmdir(folder), 0);
}

int main(void)
{
    char folder[] = "/tmp/rg-fence-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    a_living_process_can();
    a_zombie_can_not();
    a_thread_behind_a_zombie_can();
    unreadable_process_can();
    with_unreadable_threads_can();
    a_dumping_process_can_not();
    clear(folder);
    return 0;
}
