/* A signal for the process is handled by no thread of ours: where all threads
 * of the program block it, it waits. A fault of our thread has its handler.
 *
 * Covers: start_thread.h */
#include <semaphore.h>
#include <sys/mman.h>
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

static void on_fault(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    taken = taken + 1;
    mprotect(info->si_addr, 1, PROT_READ | PROT_WRITE); /* go on */
}

static void *touch(void *page)
{
    *(volatile char *)page = 1;
    return page;
}

static void fault_has_its_handler(void)
{
    const struct sigaction act = {.sa_sigaction = on_fault,
                                  .sa_flags = SA_SIGINFO};
    pthread_t thread;
    void *page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    CHECK_EQ(sigaction(SIGSEGV, &act, NULL), 0);
    CHECK_EQ(rg__start_thread(&thread, touch, page), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(taken, 2);
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
    fault_has_its_handler();
    return 0;
}
