/* A signal for the process is handled by no thread of ours: where all threads
 * of the program block it, it waits.
 *
 * Covers: start_thread.h */
#include <semaphore.h>
#include <unistd.h>

#include "sdk/base/start_thread.h"
#include "tests/check.h"

static volatile sig_atomic_t taken;
static sem_t was_sent;

static void on_signal(int number)
{
    (void)number;
    taken = taken + 1;
}

static void *run(void *arg)
{
    while (sem_wait(&was_sent) != 0)
        ; /* it would have been interrupted */
    return arg;
}

int main(void)
{
    const struct sigaction act = {.sa_handler = on_signal};
    sigset_t one, before;
    pthread_t thread;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    CHECK_EQ(sem_init(&was_sent, 0, 0), 0);
    CHECK_EQ(sigaction(SIGUSR1, &act, NULL), 0);
    CHECK_EQ(rg__start_thread(&thread, run, NULL), 0);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    CHECK(!sigismember(&before, SIGUSR1)); /* our own mask is as it was */
    CHECK_EQ(kill(getpid(), SIGUSR1), 0);
    CHECK_EQ(sem_post(&was_sent), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(taken, 0);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &one, NULL), 0);
    CHECK_EQ(taken, 1);
    return 0;
}
