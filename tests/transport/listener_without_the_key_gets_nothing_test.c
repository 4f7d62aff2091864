/* A stranger listens where a member is to be: the worker that connects says
 * HELLO, finds that the answer is not made with the job's key, and hangs up.
 *
 * Covers: frame.c handshake.c */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sdk/transport/tcp/frame.h"
#include "tests/lib/world.h"

#define BOUND_MS 20000

static const int both[2] = {0, 1};

static int accept_one(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    CHECK_EQ(poll(&p, 1, BOUND_MS), 1);
    const int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    return fd;
}

/* It answers in form. What comes then? */
static ssize_t read_after_answer(int fd)
{
    struct {
        rg__frame head;
        rg__data_hello body;
    } got;
    struct {
        rg__frame head;
        rg__data_answer body;
    } reply = {.head = {.magic = FRAME_MAGIC,
                        .kind = FRAME_ANSWER,
                        .generation = 1,
                        .bytes = sizeof(rg__data_answer)}};
    char more[256];
    CHECK_EQ(recv(fd, &got, sizeof got, MSG_WAITALL), (ssize_t)sizeof got);
    CHECK_EQ(got.head.kind, FRAME_HELLO);
    CHECK_EQ(send(fd, &reply, sizeof reply, MSG_NOSIGNAL),
             (ssize_t)sizeof reply);
    return recv(fd, more, sizeof more, 0);
}

static void play(world *w, void *arg)
{
    _Atomic uint64_t *is_over = world_word(w, 0);
    (void)arg;
    if (w->index == 1) {
        const int fd = accept_one(world_listener(w, 1));
        CHECK(read_after_answer(fd) <= 0);
        close(fd);
        atomic_store(is_over, 1);
        return;
    }
    rg_req *req = NULL;
    world_enter(w, 1, both, 2);
    CHECK_OK(rg_barrier_start(rg_world(w->ctx), NULL, &req));
    while (atomic_load(is_over) == 0)
        CHECK_STATUS(rg_wait(&req, 10), RG_IN_PROGRESS);
    world_abort(w, 0, 1);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
    world_await_left(w);
}

int main(void)
{
    const world_params params = {.n = 2, .hosts = "01", .is_outside = 1};
    world_run(&params, play, NULL);
    return 0;
}
