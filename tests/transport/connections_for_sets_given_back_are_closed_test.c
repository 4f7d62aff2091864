/* A rank gives sets back before the others' connections for them have come:
 * once the others have given theirs back, no descriptor is left of them.
 *
 * Covers: net.c */

#include "sdk/base/clock.h"
#include "tests/lib/descriptors.h"
#include "tests/lib/world.h"

#define SETS     40
#define BOUND_NS (20000 * RG__MS)

/* The others keep theirs for some operations of the world's, in which their
 * connections come up. */
static void give_back(world *w)
{
    const int ranks[] = {0, 1, 2, 3};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, w->n, NULL, &set));
    if (w->index >= w->n / 2) {
        rg_set_destroy(set);
        set = NULL;
    }
    for (int i = 0; i < 30; i++)
        CHECK_OK(rg_barrier(rg_world(w->ctx)));
    rg_set_destroy(set);
}

/* The most that any rank has more than before. */
static int64_t left_over(world *w, int before)
{
    const int64_t mine = descriptors() - before;
    int64_t most = 0;
    CHECK_OK(rg_allreduce(rg_world(w->ctx), &mine, &most, 1, RG_I64, RG_MAX));
    return most;
}

static void all(world *w, void *arg)
{
    (void)arg;
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    const int before = descriptors();
    for (int i = 0; i < SETS; i++)
        give_back(w);
    const uint64_t end = rg__now_ns() + BOUND_NS;
    int64_t left = left_over(w, before);
    while (left > 0) {
        if (rg__now_ns() > end)
            CHECK_FAIL("%d descriptors are left", (int)left);
        left = left_over(w, before);
    }
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
