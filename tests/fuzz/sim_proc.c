#include "tests/fuzz/sim_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define PROCS_MAX 256
#define OPEN_MAX_ 512
#define FIRST_PID 5000000 /* above what Linux gives out */

typedef struct proc {
    bool is_dead, is_reaped, is_orphan;
    int status;
} proc;

/* A pidfd is the reading end of a pipe. */
typedef struct opened {
    pid_t pid;
    int end; /* the other end, ours */
} opened;

static proc procs[PROCS_MAX]; /* by pid */
static int count;
static opened open_[OPEN_MAX_];
static int opens;
static pid_t self;
static void (*orphan_told)(pid_t pid, int status);

static proc *find(pid_t pid)
{
    const int i = (int)pid - FIRST_PID;
    return i >= 0 && i < count ? &procs[i] : NULL;
}

void sim_proc_begin(void)
{
    count = opens = 0;
    self = 0;
    orphan_told = NULL;
}

void sim_proc_end(void)
{
    for (int i = 0; i < opens; i++)
        close(open_[i].end);
    opens = 0;
}

void sim_proc_orphan(void (*told)(pid_t pid, int status))
{
    orphan_told = told;
    for (int i = 0; i < count; i++) {
        procs[i].is_orphan = true;
        if (procs[i].is_dead && !procs[i].is_reaped)
            told(FIRST_PID + i, procs[i].status);
    }
}

pid_t sim_proc_child(unsigned i)
{
    int alive = 0;
    for (int k = 0; k < count; k++)
        alive += !procs[k].is_dead;
    if (alive == 0)
        return 0;
    i %= (unsigned)alive;
    for (int k = 0; k < count; k++)
        if (!procs[k].is_dead && i-- == 0)
            return FIRST_PID + k;
    return 0;
}

/* The reader of the other end may be gone. */
static void signal_death(pid_t pid)
{
    for (int i = 0; i < opens; i++)
        if (open_[i].pid == pid)
            (void)!write(open_[i].end, "x", 1);
}

void sim_proc_exit(pid_t pid, int status)
{
    proc *p = find(pid);
    if (p == NULL || p->is_dead)
        return;
    p->is_dead = true;
    p->status = status;
    signal_death(pid);
    if (p->is_orphan)
        orphan_told(pid, status);
}

void sim_proc_be(pid_t pid)
{
    self = pid;
}

/* ------------------------------------------------------ wrapped libc calls */

pid_t __wrap_fork(void);
pid_t __wrap_waitpid(pid_t pid, int *status_p, int options);
int __wrap_rg__how_ended(pid_t child);
void __wrap_rg__reap(pid_t child);
int __wrap_kill(pid_t pid, int signum);
int __wrap_setpgid(pid_t pid, pid_t group);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_getsockopt(int sock, int level, int name, void *value,
                      socklen_t *bytes);
long __wrap_syscall(long number, ...);
int __real_getsockopt(int sock, int level, int name, void *value,
                      socklen_t *bytes);
long __real_syscall(long number, ...);

pid_t __wrap_fork(void)
{
    if (count == PROCS_MAX) {
        errno = EAGAIN;
        return -1;
    }
    procs[count] = (proc){0};
    return FIRST_PID + count++;
}

/* Waiting for a living child is forbidden: that would never end. */
pid_t __wrap_waitpid(pid_t pid, int *status_p, int options)
{
    proc *p = find(pid);
    (void)options;
    if (p == NULL || p->is_reaped || p->is_orphan) {
        errno = ECHILD;
        return -1;
    }
    FUZZ_CLAIM(p->is_dead);
    p->is_reaped = true;
    if (status_p != NULL)
        *status_p = p->status;
    return pid;
}

int __wrap_rg__how_ended(pid_t child)
{
    const proc *p = find(child);
    return p != NULL ? p->status : 0;
}

/* At once: a thread of the agent's would come when the next input runs. */
void __wrap_rg__reap(pid_t child)
{
    __wrap_waitpid(child, NULL, 0);
}

/* A group is its leader. Signals to -1 or 0 are forbidden. */
int __wrap_kill(pid_t pid, int signum)
{
    FUZZ_CLAIM(pid < -1 || pid > 0);
    if (signum == SIGKILL)
        sim_proc_exit(pid < 0 ? -pid : pid, SIGKILL);
    return 0;
}

int __wrap_setpgid(pid_t pid, pid_t group)
{
    (void)pid, (void)group;
    return 0;
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    (void)how, (void)set;
    if (old != NULL)
        sigemptyset(old);
    return 0;
}

int __wrap_getsockopt(int sock, int level, int name, void *value,
                      socklen_t *bytes)
{
    const int rc = __real_getsockopt(sock, level, name, value, bytes);
    if (rc == 0 && level == SOL_SOCKET && name == SO_PEERCRED)
        ((struct ucred *)value)->pid = self;
    return rc;
}

static long open_pidfd(pid_t pid)
{
    int ends[2];
    const proc *p = find(pid);
    FUZZ_CLAIM(p != NULL && opens < OPEN_MAX_);
    FUZZ_CLAIM(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0);
    open_[opens++] = (opened){pid, ends[1]};
    if (p->is_dead)
        signal_death(pid);
    return ends[0];
}

/* Both ends of a pipe, and copies of them, have one inode. */
static pid_t pid_of(int fd)
{
    struct stat one, other;
    FUZZ_CLAIM(fstat(fd, &one) == 0);
    for (int i = 0; i < opens; i++)
        if (fstat(open_[i].end, &other) == 0 && one.st_ino == other.st_ino)
            return open_[i].pid;
    FUZZ_CLAIM(opens < 0); /* it is no pidfd */
    return 0;
}

/* Nothing says how many arguments there are. */
static int arguments_of(long number)
{
    return number == SYS_futex ? 6 : number == SYS_pidfd_send_signal ? 4 : 2;
}

long __wrap_syscall(long number, ...)
{
    va_list args;
    long a[6] = {0};
    va_start(args, number);
    for (int i = 0; i < arguments_of(number); i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_pidfd_open)
        return open_pidfd((pid_t)a[0]);
    if (number == SYS_pidfd_send_signal)
        return __wrap_kill(pid_of((int)a[0]), (int)a[1]);
    FUZZ_CLAIM(number == SYS_futex);
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
