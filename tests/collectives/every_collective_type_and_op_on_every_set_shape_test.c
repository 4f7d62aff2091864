/* Every collective, type and op on sets of every shape over the hosts that the
 * arguments say (a digit for each rank), in ordinary, rg_alloc and mixed
 * memory, against a closed form; what is sent stays as it was. B1 to B5, B9 to
 * B12, B15, B16.
 *
 * Covers: collectives.c transport/reduce.c type.c native.c staged.c
 *     pairwise.c */
#include <stdlib.h>

#include "tests/lib/collectives.h"
#include "tests/lib/world.h"

static size_t most;

static collectives_memory memory_of(world *w, char *own, int kind)
{
    const size_t room = COLLECTIVES_ROOM(most, (size_t)w->n);
    const bool is_shared = kind == 1 || (kind == 2 && w->index != 1);
    char *base = is_shared ? w->alloc : own;
    return (collectives_memory){base, base + room, room};
}

static void on(world *w, const int *ranks, int n, collectives_memory m,
               size_t bytes)
{
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(w->ctx, ranks, n, NULL, &set));
    if (rg_set_rank(set) >= 0) {
        collectives_reduce(set, m, bytes);
        collectives_move(set, m, bytes);
    } else {
        CHECK_STATUS(rg_barrier(set), RG_ERR_NOT_MEMBER);
    }
    CHECK_OK(rg_barrier(rg_world(w->ctx)));
    CHECK_OK(rg_set_destroy(set));
}

typedef enum shape {
    ALL,
    ONE,
    ODD,
    STRIDED,
    REVERSED,
    LOW,
    HIGH,
    SHAPES
} shape;

static int ranks_of(shape s, int n, int *ranks)
{
    int k = 0;
    for (int i = 0; i < n; i++) {
        const int r = s == REVERSED ? n - 1 - i : i;
        const bool is_in =
            s == ALL || s == REVERSED || (s == ONE && r == n - 1) ||
            (s == ODD && r % 2 == 1) || (s == STRIDED && r % 3 == 0) ||
            (s == LOW && r <= n / 2) || (s == HIGH && r >= n / 2);
        if (is_in)
            ranks[k++] = r;
    }
    return k;
}

/* Three ranks of one host meet everything; more of them, or of several hosts,
 * take turns at the processors for each message, and get a part: mixed memory,
 * and shapes whose first member is not rank 0. */
static bool is_left_out(const world *w, int kind, shape s)
{
    const bool is_short = w->n > 3 || rg_host_count(w->ctx) > 1;
    return is_short && (kind != 2 || (s != ODD && s != REVERSED && s != HIGH));
}

/* B25: ranks of even and of odd number have a set each, which run all of that
 * at the same time. */
static void side_by_side(world *w, collectives_memory m)
{
    rg_set *set = NULL;
    CHECK_OK(rg_set_split(w->ctx, w->index % 2, -w->index, NULL, &set));
    collectives_reduce(set, m, 88);
    collectives_move(set, m, 2100);
    CHECK_OK(rg_set_destroy(set));
}

static void all(world *w, void *arg)
{
    (void)arg;
    char *own = malloc(2 * COLLECTIVES_ROOM(most, (size_t)w->n));
    CHECK(own != NULL);
    for (int kind = 0; kind < 3; kind++) {
        if (is_left_out(w, kind, REVERSED))
            continue;
        const collectives_memory m = memory_of(w, own, kind);
        collectives_reduce(rg_world(w->ctx), m, most);
        collectives_move(rg_world(w->ctx), m, most);
    }
    for (int s = ALL; s < SHAPES; s++) {
        int ranks[WORLD_MAX];
        const int n = ranks_of((shape)s, w->n, ranks);
        if (n > 0 && !is_left_out(w, 2, (shape)s))
            on(w, ranks, n, memory_of(w, own, s % 3), 9000);
    }
    side_by_side(w, memory_of(w, own, 2));
    free(own);
}

int main(int argc, char **argv)
{
    most = COLLECTIVES_MANY;
    for (int i = 1; i < argc; i++) {
        const int n = (int)strlen(argv[i]);
        const world_params params = {.n = n,
                                     .hosts = argv[i],
                                     .alloc_bytes =
                                         2 * COLLECTIVES_ROOM(most, (size_t)n),
                                     .timeout_s = 200};
        world_run(&params, all, NULL);
    }
    return 0;
}
