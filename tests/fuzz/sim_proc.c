#include "tests/fuzz/sim_proc.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

#define PROCS_MAX 256
#define OPEN_MAX_ 512
#define FIRST_PID 5000000 /* above what Linux gives out */

typedef struct proc {
    bool is_dead, is_reaped;
    int status;
} proc;

typedef struct opened {
    pid_t pid;
    int given; /* its pidfd, as long as that is open */
    int event; /* a descriptor of our own for the same */
} opened;

static proc procs[PROCS_MAX]; /* by pid */
static int count;
static opened open_[OPEN_MAX_];
static int opens;
static pid_t self;

static proc *find(pid_t pid)
{
    const int i = (int)pid - FIRST_PID;
    return i >= 0 && i < count ? &procs[i] : NULL;
}

void sim_proc_begin(void)
{
    count = opens = 0;
    self = 0;
}

void sim_proc_end(void)
{
    for (int i = 0; i < opens; i++)
        close(open_[i].event);
    opens = 0;
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

static void signal_death(pid_t pid)
{
    const uint64_t one = 1;
    for (int i = 0; i < opens; i++)
        if (open_[i].pid == pid)
            FUZZ_CLAIM(write(open_[i].event, &one, sizeof one) == sizeof one);
}

void sim_proc_exit(pid_t pid, int status)
{
    proc *p = find(pid);
    if (p == NULL || p->is_dead)
        return;
    p->is_dead = true;
    p->status = status;
    signal_death(pid);
}

void sim_proc_be(pid_t pid)
{
    self = pid;
}

/* ------------------------------------------------------ wrapped libc calls */

pid_t __wrap_fork(void);
pid_t __wrap_waitpid(pid_t pid, int *status_p, int options);
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

/* Nobody may wait for a child that lives: that would be for ever. */
pid_t __wrap_waitpid(pid_t pid, int *status_p, int options)
{
    proc *p = find(pid);
    (void)options;
    if (p == NULL || p->is_reaped) {
        errno = ECHILD;
        return -1;
    }
    FUZZ_CLAIM(p->is_dead);
    p->is_reaped = true;
    if (status_p != NULL)
        *status_p = p->status;
    return pid;
}

/* A group is who leads it. Nobody here may be signalled by -1 or 0. */
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
    const proc *p = find(pid);
    const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    FUZZ_CLAIM(p != NULL && event >= 0 && opens < OPEN_MAX_);
    open_[opens] = (opened){pid, dup(event), event};
    opens++;
    if (p->is_dead)
        signal_death(pid);
    return open_[opens - 1].given;
}

/* The newest of that number: older ones were closed. */
static pid_t pid_of(int fd)
{
    for (int i = opens - 1; i >= 0; i--)
        if (open_[i].given == fd)
            return open_[i].pid;
    FUZZ_CLAIM(opens < 0); /* it was never opened */
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
