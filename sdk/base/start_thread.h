/* Start a thread that no signal reaches: signals are for the threads of the
 * program, whose calls they interrupt. Threads: any. */
#ifndef RG_BASE_START_THREAD_H
#define RG_BASE_START_THREAD_H

#include <pthread.h>
#include <signal.h>

/* 0, or what pthread_create says. */
static inline int rg__start_thread(pthread_t *thread, void *(*run)(void *arg),
                                   void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int err = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

#endif
