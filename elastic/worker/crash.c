/* Crash handlers. A core dump hides the death of a process for seconds, so the
 * signals that end in one first store `dying` in the page and wake the agent.
 * Then the handler that was installed before ours is called, or the default
 * action happens. A program that wants to survive such a signal installs its
 * handler after rg_init, in place of ours. */
#include "elastic/worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int crash_signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
#define CRASH_SIGNALS (sizeof crash_signals / sizeof crash_signals[0])

static struct sigaction before[CRASH_SIGNALS];
static rg__page *crash_page;
static pid_t crash_pid;

static size_t index_of(int signum)
{
    size_t i = 0;
    while (i + 1 < CRASH_SIGNALS && crash_signals[i] != signum)
        i++;
    return i;
}

static void say_dying(int signum)
{
    atomic_store(&crash_page->dying_tid, (int32_t)syscall(SYS_gettid));
    atomic_store(&crash_page->dying, (uint32_t)signum);
    rg__futex_wake((_Atomic uint32_t *)(void *)&crash_page->life);
}

static void on_crash(int signum, siginfo_t *info, void *context)
{
    const int saved = errno;
    if (getpid() == crash_pid) /* a forked child has no page */
        say_dying(signum);
    const struct sigaction *old = &before[index_of(signum)];
    errno = saved;
    if (old->sa_flags & SA_SIGINFO) {
        old->sa_sigaction(signum, info, context);
    } else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN) {
        old->sa_handler(signum);
    } else {
        signal(signum, SIG_DFL);
        raise(signum); /* delivered when this handler returns */
    }
}

void rg__crash_install(rg__page *page)
{
    crash_page = page;
    crash_pid = getpid();
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < CRASH_SIGNALS; i++)
        sigaction(crash_signals[i], &action, &before[i]);
}
