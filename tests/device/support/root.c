/* Unique ids. Each comes with a thread that waits at a port until every rank
 * has checked in, without any limit: only shutting the port ends it earlier. */
#include "tests/device/support/comm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define RETRIES  34 /* of a rank that finds no listener at the port */
#define RETRY_MS 100

/* The first two as in NCCL. */
typedef struct inner_id {
    uint64_t magic;
    struct sockaddr_in root;
    char name[64];
} inner_id;

_Static_assert(sizeof(inner_id) <= sizeof(rg__nccl_id), "it fits into an id");

typedef struct root {
    int listener;
    inner_id id;
} root;

static int number_from(const char *variable, int otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atoi(text) : otherwise;
}

static void path_of(const inner_id *id, char *text, size_t room)
{
    fake_path(text, room, id->name);
}

void fake_path_of_id(const rg__nccl_id *id, char *text, size_t room)
{
    inner_id inner;
    memcpy(&inner, id, sizeof inner);
    inner.name[sizeof inner.name - 1] = 0;
    path_of(&inner, text, room);
}

/* ----------------------------------------------------------- the root's thread
 */

static bool take_one(root *r, int *n_p)
{
    const int peer = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
    if (peer < 0)
        return false;
    const bool is_whole =
        recv(peer, n_p, sizeof *n_p, MSG_WAITALL) == (ssize_t)sizeof *n_p;
    close(peer);
    return is_whole;
}

static void let_all_go(const root *r)
{
    char path[600];
    path_of(&r->id, path, sizeof path);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    fake_segment *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (s == MAP_FAILED)
        return;
    atomic_store(&s->may_go, 1);
    atomic_fetch_add(&s->bell, 1);
    munmap(s, sizeof *s);
}

static void remove_file(const root *r)
{
    char path[600];
    path_of(&r->id, path, sizeof path);
    unlink(path);
}

static void *run_root(void *arg)
{
    root *r = arg;
    int n = 1, here = 0;
    while (here < n && take_one(r, &n))
        here++;
    if (here == n)
        let_all_go(r);
    else
        remove_file(r);
    close(r->listener);
    fake_count(0, -1);
    free(r);
    fake_thread_ends();
    return NULL;
}

/* ------------------------------------------------------------------------ ids
 */

static int listen_at(struct sockaddr_in *at)
{
    socklen_t room = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)at, sizeof *at) != 0 ||
        listen(fd, 128) != 0 ||
        getsockname(fd, (struct sockaddr *)at, &room) != 0)
        fake_violation("no port can be had: %s", strerror(errno));
    return fd;
}

static void make_file(const inner_id *id)
{
    char path[600];
    path_of(id, path, sizeof path);
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(fake_segment)) != 0)
        fake_violation("%s: %s", path, strerror(errno));
    close(fd);
}

int fake_make_id(rg__nccl_id *id_p)
{
    if (getenv("NCCL_COMM_ID"))
        fake_violation("NCCL_COMM_ID is set: generations would mix");
    root *r = calloc(1, sizeof *r);
    if (getrandom(&r->id.magic, sizeof r->id.magic, 0) < 0)
        fake_violation("there is no random number");
    snprintf(r->id.name, sizeof r->id.name, "nccl.%016llx",
             (unsigned long long)r->id.magic);
    r->listener = listen_at(&r->id.root);
    make_file(&r->id);
    *id_p = (rg__nccl_id){{0}};
    memcpy(id_p, &r->id, sizeof r->id);
    fake_count(0, 1);
    fake_thread(run_root, r);
    return RG__NCCL_Success;
}

/* ------------------------------------------------------------------- checking
 * in
 */

static bool say_hello(const struct sockaddr_in *at, int n)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool is_told =
        fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) == 0 &&
        send(fd, &n, sizeof n, MSG_NOSIGNAL) == (ssize_t)sizeof n;
    if (fd >= 0)
        close(fd);
    return is_told;
}

int fake_check_in(rg__nccl_comm c, const rg__nccl_id *id)
{
    inner_id inner;
    memcpy(&inner, id, sizeof inner);
    const int retries = number_from("NCCL_SOCKET_RETRY_CNT", RETRIES);
    const int sleep_ms = number_from("NCCL_SOCKET_RETRY_SLEEP_MSEC", RETRY_MS);
    for (int i = 0; i < retries; i++) {
        if (say_hello(&inner.root, c->n))
            return RG__NCCL_Success;
        if (!fake_await_ms(c, sleep_ms * (i + 1)))
            return RG__NCCL_InternalError;
    }
    fake_tell("rank %d: the root does not answer", c->rank);
    return RG__NCCL_RemoteError;
}
