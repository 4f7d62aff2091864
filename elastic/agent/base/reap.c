/* Reaping takes as long as the kernel needs to forget the process's entries in
 * /proc: half a second when a program such as lsof has looked at 80,000 of
 * them. A thread of its own waits for that; without one the loop has to. */
#include "elastic/agent/base/reap.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/wait.h>
#include "sdk/base/start_thread.h"

int rg__how_ended(pid_t child)
{
    siginfo_t info = {.si_pid = 0};
    while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) < 0 &&
           errno == EINTR)
        ;
    return info.si_code == CLD_EXITED ? W_EXITCODE(info.si_status, 0)
                                      : info.si_status;
}

int rg__code_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void *reap(void *child)
{
    while (waitpid((pid_t)(intptr_t)child, NULL, 0) < 0 && errno == EINTR)
        ;
    return NULL;
}

void rg__reap(pid_t child)
{
    pthread_t thread;
    void *arg = (void *)(intptr_t)child; /* NOLINT: a number */
    if (rg__start_thread(&thread, reap, arg) == 0)
        pthread_detach(thread);
    else
        reap(arg);
}
