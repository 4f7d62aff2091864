/* One rank stops at some point of an operation (its engine's lock is
 * held), and the generation is aborted: the others' waits end with PEER_LOST, a
 * start afterwards as well, and the next generation without that rank works.
 * The points: before it starts, right after, and later ones in the middle of
 * the data.
 *
 * Covers: context.c sleep.c */
#include <time.h>

#include "sdk/base/clock.h"
#include "tests/lib/world.h"

#define BOUND_NS (20000 * RG__MS) /* of a hang, on a busy machine */

typedef struct scene {
    rg__kind kind;
    uint64_t count;
    int is_shared;
    int pause_us; /* -1: rank 0 never starts */
} scene;

static rg_status start(world *w, const scene *s, char *own, rg_req **req_p)
{
    rg_set *set = rg_world(w->ctx);
    char *send = s->is_shared ? w->alloc : own;
    char *recv = send + (8 << 20);
    switch (s->kind) {
    case RG__ALLREDUCE:
        return rg_allreduce_start(set, send, recv, s->count, RG_U8, RG_SUM,
                                  NULL, req_p);
    case RG__BROADCAST:
        return rg_broadcast_start(set, recv, s->count, RG_U8, NULL, req_p);
    case RG__ALLGATHER:
        return rg_allgather_start(set, send, recv, s->count, RG_U8, NULL,
                                  req_p);
    default:
        return rg_barrier_start(set, NULL, req_p);
    }
}

/* Rank 0 is the one that stands still, until the others are through. */
static void stand_still(world *w, const scene *s, char *own)
{
    rg_req *req = NULL;
    if (s->pause_us >= 0) {
        CHECK_OK(start(w, s, own, &req));
        const struct timespec pause = {.tv_nsec = s->pause_us * 1000l};
        nanosleep(&pause, NULL);
    }
    rg__engine_lock(w->ctx->engine);
    world_meet_some(w, 1, 3);
    world_meet_some(w, 2, 3);
    rg__engine_unlock(w->ctx->engine);
    if (req != NULL)
        rg_wait(&req, 0);
    world_abort(w, 0, 1);
    if (req != NULL)
        rg_wait(&req, -1);
    world_await_left(w);
}

static void be_lost(world *w, const scene *s, char *own)
{
    rg_req *req = NULL;
    CHECK_OK(start(w, s, own, &req));
    world_meet_some(w, 1, 3);
    rg_status st = rg_wait(&req, 5);
    const uint64_t before = rg__now_ns();
    world_abort(w, w->index, 1);
    if (st == RG_IN_PROGRESS)
        st = rg_wait(&req, -1);
    CHECK(rg__now_ns() - before < BOUND_NS);
    CHECK(req == NULL);
    CHECK(st == RG_OK || st == RG_ERR_PEER_LOST);
    if (s->pause_us < 0)
        CHECK_EQ(st, RG_ERR_PEER_LOST);
    CHECK_STATUS(rg_barrier_start(rg_world(w->ctx), NULL, &req),
                 RG_ERR_PEER_LOST);
    world_await_left(w);
    CHECK(rg__now_ns() - before < BOUND_NS);
    CHECK_STATUS(rg_barrier_start(rg_world(w->ctx), NULL, &req),
                 RG_ERR_PEER_LOST);
}

static void go_on(world *w)
{
    static const int rest[2] = {1, 2};
    int32_t one = 1, sum = 0;
    world_enter(w, 2, rest, 2);
    CHECK_OK(rg__sets_sync(w->ctx));
    CHECK_OK(rg_allreduce(rg_world(w->ctx), &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, 2);
}

static void play(world *w, void *arg)
{
    const scene *s = arg;
    char *own = calloc(1, 40 << 20);
    CHECK(own != NULL);
    if (w->index == 0) {
        stand_still(w, s, own);
    } else {
        be_lost(w, s, own);
        world_meet_some(w, 2, 3);
        go_on(w);
    }
    free(own);
}

int main(void)
{
    static const rg__kind kinds[] = {RG__ALLREDUCE, RG__BROADCAST,
                                     RG__ALLGATHER, RG__BARRIER};
    static const uint64_t counts[] = {1, 5000, 8 << 20};
    static const int pauses[] = {-1, 0, 300, 1500};
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < (kinds[k] == RG__BARRIER ? 1 : 3); c++)
            for (int p = 0; p < 4; p++) {
                scene s = {kinds[k], counts[c], (c + p) % 2, pauses[p]};
                const world_params params = {.n = 3, .alloc_bytes = 40 << 20};
                world_run(&params, play, &s);
                s.is_shared = !s.is_shared;
                if (counts[c] > 8192)
                    world_run(&params, play, &s);
            }
    return 0;
}
