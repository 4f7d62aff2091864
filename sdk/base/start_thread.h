/* Start a thread that no signal reaches but those of its own faults: others are
 * for the threads of the program, whose calls they interrupt. A fault with its
 * signal blocked ends the process without a handler. Threads: any. */
#ifndef RG_BASE_START_THREAD_H
#define RG_BASE_START_THREAD_H

#include <pthread.h>
#include <signal.h>
#include <stddef.h>

/* 0, or what pthread_create says. */
static inline int rg__start_thread(pthread_t *thread, void *(*run)(void *arg),
                                   void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS,  SIGFPE,
                                 SIGILL,  SIGTRAP, SIGSYS};
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int err = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

#endif
