/* B13, B14, B26: a rank that has left a barrier knows that all have come, even
 * a late one, among operations in flight; a barrier on another set, where no
 * rank is late, does not wait for it.
 *
 * Covers: native.c inter.c */
#include <time.h>

#include "tests/lib/world.h"

#define ROUNDS 50

static void come_late(void)
{
    const struct timespec late = {.tv_nsec = 100000000};
    nanosleep(&late, NULL);
}

static void all(world *w, void *arg)
{
    (void)arg;
    const int both[2] = {1, 0};
    rg_set *set = rg_world(w->ctx), *pair = NULL;
    CHECK_OK(rg_set_create(w->ctx, both, 2, NULL, &pair));
    for (int i = 0; i < ROUNDS; i++) {
        int32_t one = 1, sum = 0;
        rg_req *req = NULL, *barrier = NULL;
        if (w->index == 2 && i == 7) {
            while (atomic_load(world_word(w, 50)) < 2) /* the pair is through */
                come_late();
        }
        CHECK_OK(
            rg_allreduce_start(set, &one, &sum, 1, RG_I32, RG_SUM, NULL, &req));
        atomic_fetch_add(world_word(w, i), 1);
        CHECK_OK(rg_barrier_start(set, NULL, &barrier));
        if (w->index < 2 && i == 7) {
            CHECK_OK(rg_barrier(pair));
            atomic_fetch_add(world_word(w, 50), 1);
        }
        CHECK_OK(rg_wait(&barrier, -1));
        CHECK_EQ(atomic_load(world_word(w, i)), (uint64_t)w->n);
        CHECK_OK(rg_wait(&req, -1));
        CHECK_EQ(sum, w->n);
    }
}

int main(void)
{
    world_of(3, all, NULL);
    return 0;
}
