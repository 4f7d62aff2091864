/* A connection that breaks though no process died: both ends say so once, with
 * the other's rank, and go on waiting until the generation is aborted; the next
 * one has connections of its own. Ranks still in a generation don't report a
 * process that leaves it in order.
 *
 * Covers: link.c net.c */
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sdk/base/clock.h"
#include "tests/lib/world.h"

#define BOUND_NS (20000 * RG__MS)

static const int both[2] = {0, 1};

static void await(_Atomic int *word, int value)
{
    const uint64_t begin = rg__now_ns();
    while (atomic_load(word) != value) {
        CHECK(rg__now_ns() - begin < BOUND_NS);
        sched_yield();
    }
}

static bool is_connection(int fd)
{
    struct sockaddr_in peer;
    socklen_t bytes = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
           peer.sin_family == AF_INET;
}

/* Put a socket that nothing is connected to in the place of each connection;
 * the kernel resets what was there. */
static int reset_connections(void)
{
    const struct linger at_once = {.l_onoff = 1};
    const int other = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int n = 0;
    CHECK(other >= 0);
    for (int fd = 3; fd < 256; fd++) {
        if (!is_connection(fd))
            continue;
        CHECK_EQ(
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
        CHECK_EQ(dup2(other, fd), fd);
        n++;
    }
    close(other);
    return n;
}

static void shut_connections(void)
{
    for (int fd = 3; fd < 256; fd++)
        if (is_connection(fd))
            shutdown(fd, SHUT_RDWR);
}

typedef struct scene {
    bool is_reset; /* else shut down in order, but without a word */
    uint64_t count;
} scene;

static void check_next(world *w, uint64_t generation)
{
    int32_t one = 1, sum = 0;
    world_enter(w, generation, both, 2);
    CHECK_OK(rg__sets_sync(w->ctx));
    CHECK_OK(rg_allreduce(rg_world(w->ctx), &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, 2);
}

static void is_told(world *w, void *arg)
{
    const scene *s = arg;
    uint8_t *data = calloc(1, s->count);
    rg_req *req = NULL;
    CHECK(data != NULL);
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    world_meet(w);
    if (w->index == 1) { /* rank 0 starts, and waits for rank 1 */
        rg__engine_lock(w->ctx->engine);
        if (s->is_reset)
            CHECK_EQ(reset_connections(), 1);
        else
            shut_connections();
        rg__engine_unlock(w->ctx->engine);
    }
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), data, data, s->count, RG_U8,
                                RG_SUM, NULL, &req));
    await(&w->broken, 1);
    CHECK_EQ(atomic_load(&w->broken_rank), 1 - w->index);
    CHECK_STATUS(rg_wait(&req, 250), RG_IN_PROGRESS);
    CHECK_EQ(atomic_load(&w->broken), 1);
    world_meet(w);
    world_abort(w, w->index, 1);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
    world_await_left(w);
    check_next(w, 2);
    CHECK_EQ(atomic_load(&w->broken), 1);
    free(data);
}

static void left_in_order(world *w, void *arg)
{
    (void)arg;
    rg_req *req = NULL;
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    if (w->index == 1)
        world_leave(w, RG_ERR_HOSTS_CHANGED);
    else
        CHECK_OK(rg_barrier_start(rg_world(w->ctx), NULL, &req));
    world_meet(w);
    if (w->index == 0) {
        CHECK_STATUS(rg_wait(&req, 400), RG_IN_PROGRESS);
        CHECK_EQ(atomic_load(&w->broken), 0);
        world_abort(w, 0, 1);
        CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
        world_await_left(w);
    }
    check_next(w, 2);
    CHECK_EQ(atomic_load(&w->broken), 0);
}

/* Its listener is gone with it, before anybody was connected. */
static void died_before(world *w, void *arg)
{
    (void)arg;
    if (w->index == 1)
        _exit(0);
    world_enter(w, 1, both, 2);
    rg_req *req = NULL;
    CHECK_OK(rg_barrier_start(rg_world(w->ctx), NULL, &req));
    const struct timespec pause = {.tv_nsec = 100000000};
    for (int i = 0; atomic_load(&w->broken) == 0; i++) {
        CHECK(i < 200);
        nanosleep(&pause, NULL);
    }
    CHECK_EQ(atomic_load(&w->broken_rank), 1);
    CHECK(strstr(w->broken_why, "Connection refused") != NULL);
    world_abort(w, 0, 1);
    CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
    world_await_left(w);
}

int main(void)
{
    static const scene scenes[] = {
        {true, 1}, {true, 8 << 20}, {false, 1}, {false, 8 << 20}};
    for (int i = 0; i < 4; i++) {
        scene s = scenes[i];
        world_on("01", is_told, &s);
    }
    world_on("01", left_in_order, NULL);
    const world_params outside = {.n = 2, .hosts = "01", .is_outside = 1};
    world_run(&outside, died_before, NULL);
    return 0;
}
