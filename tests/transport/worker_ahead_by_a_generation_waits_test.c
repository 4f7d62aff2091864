/* A worker in the next generation connects to one that is still in the former:
 * it is told to try again, neither reports anything, and it goes on as soon as
 * the other has followed, even if that takes longer than the time limit for
 * a worker that does not answer. A worker that is behind is not let in.
 *
 * Covers: listener.c handshake.c */
#include <time.h>

#include "tests/lib/world.h"

#define LONG_MS 3300

static const int both[2] = {0, 1};

static void pause_ms(int ms)
{
    const struct timespec t = {.tv_sec = ms / 1000,
                               .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

static void sum_up(world *w)
{
    int32_t one = 1, sum = 0;
    CHECK_OK(rg__sets_sync(w->ctx));
    CHECK_OK(rg_allreduce(rg_world(w->ctx), &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, 2);
    CHECK_EQ(atomic_load(&w->broken), 0);
}

/* Rank `ahead` leaves and enters; the other waits in an operation of the old
 * generation, and so looks at its listener. */
static void one_ahead(world *w, void *arg)
{
    const int ahead = *(int *)arg;
    rg_req *req = NULL;
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    if (w->index == ahead) {
        world_leave(w, RG_ERR_HOSTS_CHANGED);
        world_enter(w, 2, both, 2);
    } else {
        CHECK_OK(rg_barrier_start(rg_world(w->ctx), NULL, &req));
        CHECK_STATUS(rg_wait(&req, ahead == 0 ? LONG_MS : 300), RG_IN_PROGRESS);
        world_abort(w, w->index, 1);
        CHECK_STATUS(rg_wait(&req, -1), RG_ERR_PEER_LOST);
        world_await_left(w);
        pause_ms(100);
        world_enter(w, 2, both, 2);
    }
    sum_up(w);
}

int main(void)
{
    for (int ahead = 0; ahead < 2; ahead++)
        world_on("01", one_ahead, &ahead);
    return 0;
}
