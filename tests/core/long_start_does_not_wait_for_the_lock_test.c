/* A thread that advances an operation has the engine's lock. A long operation
 * starts all the same: in the program's order, also if no thread waits for it,
 * and it ends with its generation.
 *
 * Covers: progress.c sleep.c */
#include <sched.h>

#include "sdk/core/engine_parts.h"
#include "tests/lib/world.h"

#define COUNT (1 << 20)
#define LONG  2

typedef struct starts {
    world *w;
    char *data[LONG];
    rg_req *req[LONG];
} starts;

static void *start_all(void *arg)
{
    starts *s = arg;
    for (int i = 0; i < LONG; i++) {
        memset(s->data[i], s->w->index + i, COUNT);
        CHECK_OK(rg_allreduce_start(rg_world(s->w->ctx), s->data[i], s->data[i],
                                    (uint64_t)(COUNT - i), RG_U8, RG_SUM, NULL,
                                    &s->req[i]));
    }
    return NULL;
}

/* They return while this thread has the lock. */
static void start_behind_the_lock(starts *s)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, start_all, s), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void check(starts *s)
{
    for (int i = 0; i < LONG; i++) {
        CHECK_OK(rg_wait(&s->req[i], 0));
        CHECK_EQ(s->data[i][0], 1 + 2 * i);
        CHECK_EQ(s->data[i][COUNT - 1 - i], 1 + 2 * i);
    }
}

/* Another order on one of the ranks would be a mismatch. */
static void in_order(world *w, starts *s)
{
    int32_t one = 1, sum = 0;
    if (w->index == 0) {
        rg__engine_lock(w->ctx->engine);
        start_behind_the_lock(s);
        rg__engine_unlock(w->ctx->engine);
    } else {
        start_all(s);
    }
    CHECK_OK(rg_allreduce(rg_world(w->ctx), &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, 2);
    check(s);
}

static void without_a_waiter(world *w, starts *s)
{
    rg__engine_lock(w->ctx->engine);
    start_behind_the_lock(s);
    rg__engine_unlock(w->ctx->engine);
    for (int i = 0; i < LONG; i++)
        while (!rg__req_is_done(s->req[i])) /* a load; makes no progress */
            sched_yield();
    check(s);
}

static void in_an_abort(world *w, starts *s)
{
    world_meet(w);
    rg__engine_lock(w->ctx->engine);
    start_behind_the_lock(s);
    world_abort(w, w->index, 1);
    rg__engine_unlock(w->ctx->engine);
    for (int i = 0; i < LONG; i++)
        CHECK_STATUS(rg_wait(&s->req[i], -1), RG_ERR_PEER_LOST);
    world_await_left(w);
}

static void play(world *w, void *arg)
{
    (void)arg;
    starts s = {.w = w};
    for (int i = 0; i < LONG; i++) {
        s.data[i] = malloc(COUNT);
        CHECK(s.data[i] != NULL);
    }
    for (int round = 0; round < 6; round++) {
        in_order(w, &s);
        without_a_waiter(w, &s);
    }
    in_an_abort(w, &s);
    for (int i = 0; i < LONG; i++)
        free(s.data[i]);
}

int main(void)
{
    world_of(2, play, NULL);
    return 0;
}
