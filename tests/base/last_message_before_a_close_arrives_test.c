/* The last message before a close arrives, also where both come while the
 * other end is looking: Linux then reports the end first, a few times in
 * a hundred thousand.
 *
 * Covers: sock.c */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/sock.h"
#include "tests/check.h"

#define TIMES 40000
#define NONE  (-1)
#define STOP  (-2)

static _Atomic int given = NONE; /* a socket whose last message is to be sent */

static void *send_and_close(void *arg)
{
    const char last = 'x';
    (void)arg;
    for (;;) {
        const int sock = atomic_exchange(&given, NONE);
        if (sock == STOP)
            return NULL;
        if (sock == NONE)
            continue;
        CHECK_OK(rg__sock_send(sock, &last, 1, NULL, 0));
        close(sock);
    }
}

int main(void)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, send_and_close, NULL), 0);
    for (int i = 0; i < TIMES; i++) {
        int ends[2], fds[RG__SOCK_FDS];
        char got = 0;
        size_t n = 0;
        rg_status st = RG_IN_PROGRESS;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
        atomic_store(&given, ends[1]);
        while (st == RG_IN_PROGRESS)
            st = rg__sock_recv(ends[0], &got, 1, &n, fds);
        CHECK_OK(st);
        CHECK_EQ(got, 'x');
        close(ends[0]);
    }
    atomic_store(&given, STOP);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return 0;
}
