/* Connections to a worker without the job's key: garbage, silence, half a
 * HELLO, a wrong key, an old generation, a right HELLO without a proof, and
 * thousands of connections. All are turned away, the worker keeps a bounded
 * number of them, and operations go on meanwhile.
 *
 * Covers: listener.c proof.c frame.c handshake.c */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "sdk/transport/tcp/frame.h"
#include "tests/lib/descriptors.h"
#include "tests/lib/world.h"

#define MANY      3000
#define AT_ONCE   300
#define BOUND_NS  (20000 * RG__MS)
#define OPEN_MOST 100 /* descriptors that a worker has for strangers */

/* -------------------------------------------------------------- a stranger */

static int knock(world *w, int index)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port =
                                       htons((uint16_t)world_port(w, index))};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK_EQ(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static void say(int fd, const void *bytes, size_t n)
{
    const ssize_t sent = send(fd, bytes, n, MSG_NOSIGNAL);
    CHECK(sent == (ssize_t)n || (sent < 0 && errno != EAGAIN));
}

/* The other side closes it, while operations go on. */
static void check_closed(int fd)
{
    char rest[256];
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        CHECK_EQ(poll(&p, 1, (int)(BOUND_NS / RG__MS)), 1);
        if (read(fd, rest, sizeof rest) <= 0)
            break;
    }
    close(fd);
}

static size_t make_hello(world *w, char *out, uint64_t generation,
                         const uint8_t *key)
{
    const rg__frame head = {.magic = FRAME_MAGIC,
                            .kind = FRAME_HELLO,
                            .generation = generation,
                            .bytes = sizeof(rg__data_hello)};
    rg__data_hello h = {.body = {.generation = generation,
                                 .from_id = w->member[0],
                                 .to_id = w->member[1],
                                 .from = 0,
                                 .to = 1,
                                 .version = FRAME_VERSION}};
    rg__mac_make(h.mac, key, HELLO_LABEL, &h.body, sizeof h.body, NULL, 0);
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, &h, sizeof h);
    return sizeof head + sizeof h;
}

static void say_and_be_refused(world *w, const void *bytes, size_t n)
{
    const int fd = knock(w, 1);
    say(fd, bytes, n);
    check_closed(fd);
}

static void garbage(world *w)
{
    char bytes[4096];
    memset(bytes, 0x5a, sizeof bytes);
    say_and_be_refused(w, bytes, sizeof bytes);
    rg__frame head = {.magic = FRAME_MAGIC, .kind = FRAME_DATA, .bytes = 64};
    say_and_be_refused(w, &head, sizeof head);
    head.kind = FRAME_HELLO;
    head.bytes = UINT32_MAX;
    say_and_be_refused(w, &head, sizeof head);
}

static void wrong_hellos(world *w)
{
    static const uint8_t wrong[RG__KEY_BYTES] = "another job's key";
    char out[256];
    say_and_be_refused(w, out, make_hello(w, out, 1, wrong));
    say_and_be_refused(w, out, make_hello(w, out, 0, world_key));
    const size_t n = make_hello(w, out, 1, world_key);
    out[sizeof(rg__frame) + 60] ^= 1; /* not what was proved */
    say_and_be_refused(w, out, n);
}

/* It repeats a HELLO that it has heard, and has no answer to the question. */
static void no_proof(world *w)
{
    char out[256];
    rg__data_answer a;
    rg__frame head;
    const int fd = knock(w, 1);
    say(fd, out, make_hello(w, out, 1, world_key));
    CHECK_EQ(recv(fd, &head, sizeof head, MSG_WAITALL), sizeof head);
    CHECK_EQ(head.kind, FRAME_ANSWER);
    CHECK_EQ(recv(fd, &a, sizeof a, MSG_WAITALL), sizeof a);
    head.kind = FRAME_PROOF;
    head.bytes = sizeof(rg__data_proof);
    say(fd, &head, sizeof head);
    say(fd, &(rg__data_proof){{0}}, sizeof(rg__data_proof));
    check_closed(fd);
}

static void silence(world *w)
{
    const int quiet = knock(w, 1), half = knock(w, 1);
    char out[256];
    say(half, out, make_hello(w, out, 1, world_key) / 2);
    check_closed(quiet); /* after some seconds */
    check_closed(half);
}

static void *be_many(void *arg)
{
    world *w = arg;
    int fd[AT_ONCE];
    for (int i = 0; i < MANY; i += AT_ONCE) {
        for (int k = 0; k < AT_ONCE; k++) {
            fd[k] = knock(w, 1);
            if (k % 2 == 0)
                say(fd[k], "GET / HTTP/1.1\r\n\r\n", 18);
        }
        for (int k = 0; k < AT_ONCE; k++)
            close(fd[k]);
    }
    return NULL;
}

/* -------------------------------------------------------------- the workers
 */

static void *be_strange(void *arg)
{
    world *w = arg;
    pthread_t many;
    garbage(w);
    wrong_hellos(w);
    no_proof(w);
    CHECK_EQ(pthread_create(&many, NULL, be_many, w), 0);
    pthread_join(many, NULL);
    silence(w);
    atomic_store(world_word(w, 0), 1);
    return NULL;
}

static void keep_summing(world *w)
{
    const int before = descriptors();
    for (int64_t go_on = 1, i = 0; go_on != 0; i++) {
        int64_t mine = w->index == 0 && atomic_load(world_word(w, 0)) == 0;
        CHECK_OK(
            rg_allreduce(rg_world(w->ctx), &mine, &go_on, 1, RG_I64, RG_SUM));
        if (w->index == 1 && i % 20 == 0)
            CHECK(descriptors() < before + OPEN_MOST);
        rg__sleep_ns(RG__MS / 5);
    }
}

/* Strangers come before anybody was connected, and later. */
static void all(world *w, void *arg)
{
    pthread_t stranger;
    (void)arg;
    if (w->index == 0) {
        for (int i = 0; i < 200; i++)
            knock(w, 1);
        CHECK_EQ(pthread_create(&stranger, NULL, be_strange, w), 0);
    }
    world_meet(w);
    keep_summing(w);
    if (w->index == 0)
        pthread_join(stranger, NULL);
    CHECK_EQ(atomic_load(&w->broken), 0);
}

int main(void)
{
    world_on("01", all, NULL);
    return 0;
}
