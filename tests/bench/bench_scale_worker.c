/* The worker of bench_scale: what membership needs of a worker and nothing
 * else. It meets its agent, goes to the door, says at once that it has left and
 * built whatever it is asked to, and notes in STAMPS, a file of lines of 16
 * bytes, at its host's number when it learned of the newest decision:
 *
 *   uint64_t t_ns, generation
 */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/base/shm.h"
#include "sdk/base/sock.h"
#include "sdk/base/wire.h"

#define PONG_MS 250 /* half of the shortest budget: a Regroup thread sleeps */

typedef struct stamp {
    _Atomic uint64_t t_ns, generation;
} stamp;

typedef struct light {
    int sock;
    rg__page *page;
    stamp *stamp;
    uint64_t generation; /* built */
} light;

static int connect_to(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
    const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0 || connect(sock, (struct sockaddr *)&to, sizeof to) != 0)
        return -1;
    return sock;
}

static stamp *map_stamps(const char *path, int number)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    const off_t bytes = lseek(fd, 0, SEEK_END);
    stamp *all =
        mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return all == MAP_FAILED ? NULL : &all[number];
}

static void mark(const light *l, rg__wire_type type, uint64_t generation)
{
    const rg__mark m = {{type, RG__WIRE_VERSION}, generation};
    rg__sock_send(l->sock, &m, sizeof m, NULL, 0);
}

static void hold_life(rg__page *page)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&page->life, &attr);
    pthread_mutex_lock(&page->life);
    atomic_store(&page->tid, (int32_t)syscall(SYS_gettid));
    atomic_store(&page->magic, RG__PAGE_MAGIC);
    atomic_store(&page->ready, 1);
}

static void on_message(light *l, const void *bytes, const int *fds)
{
    const rg__wire_head *head = bytes;
    if (head->type == RG__WELCOME) {
        void *at = NULL;
        if (rg__shm_map(fds[0], RG__PAGE_BYTES, &at) != RG_OK)
            exit(1);
        l->page = at;
        hold_life(l->page);
        mark(l, RG__READY, 0);
        const rg__door door = {{RG__DOOR, RG__WIRE_VERSION}, 1};
        rg__sock_send(l->sock, &door, sizeof door, NULL, 0);
    } else if (head->type == RG__PREPARE) {
        if (l->generation != 0)
            mark(l, RG__LEFT, l->generation);
        l->generation = ((const rg__prepare *)bytes)->generation;
        mark(l, RG__BUILT, l->generation);
    } else if (head->type == RG__DECIDED) {
        atomic_store(&l->stamp->t_ns, rg__now_ns());
        atomic_store(&l->stamp->generation, l->generation);
    } else if (head->type == RG__ENDED || head->type == RG__REFUSED) {
        exit(0);
    }
}

static void serve(light *l, void *room)
{
    for (;;) {
        struct pollfd p = {.fd = l->sock, .events = POLLIN};
        poll(&p, 1, PONG_MS);
        size_t n = 0;
        int fds[RG__SOCK_FDS];
        rg_status st;
        while ((st = rg__sock_recv(l->sock, room, RG__WIRE_MAX, &n, fds)) ==
               RG_OK) {
            on_message(l, room, fds);
            for (int i = 0; i < RG__SOCK_FDS; i++)
                if (fds[i] >= 0)
                    close(fds[i]);
        }
        if (st != RG_IN_PROGRESS)
            exit(0);
        if (l->page != NULL)
            atomic_store(&l->page->pong, atomic_load(&l->page->ping));
    }
}

int main(int argc, char **argv)
{
    light l = {.sock = -1};
    const char *path = getenv(RG__ENV_SOCKET), *number = getenv("LIGHT_NUMBER");
    void *room = malloc(RG__WIRE_MAX);
    if (argc != 2 || path == NULL || number == NULL || room == NULL) {
        fprintf(stderr, "usage: bench_scale_worker STAMPS, by bench_scale\n");
        return 64;
    }
    l.stamp = map_stamps(argv[1], atoi(number));
    l.sock = connect_to(path);
    if (l.stamp == NULL || l.sock < 0) {
        perror("bench_scale_worker");
        return 1;
    }
    rg__hello m = {.head = {RG__HELLO, RG__WIRE_VERSION},
                   .pid = getpid(),
                   .slot = -1,
                   .elastic = 1};
    snprintf(m.version, sizeof m.version, "%s", RG_VERSION);
    rg__sock_send(l.sock, &m, sizeof m, NULL, 0);
    serve(&l, room);
}
