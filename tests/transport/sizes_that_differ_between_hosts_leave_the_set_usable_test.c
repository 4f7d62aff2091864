/* The hosts of a set start operations of different sizes, so that some rails
 * send what no other answers: every rank gets ERR_MISMATCH, and leftovers never
 * disturb the operations that follow.
 *
 * Covers: verdict.c exchange.c counts.c */
#include "tests/lib/world.h"

#define MOST   600000
#define BEHIND 64 /* the larger size: what differs writes neither */

/* Bytes on both sides of where the way through the hosts changes. */
static const uint64_t sizes[] = {0,      8,      8192,   9000,
                                 131072, 131073, 300000, MOST};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

typedef struct buffers {
    uint8_t *send, *recv;
} buffers;

static void differ(world *w, buffers b, uint64_t mine, uint64_t others)
{
    const uint64_t larger = mine > others ? mine : others;
    memset(b.send, 1, mine);
    memset(b.recv, 77, larger + BEHIND);
    CHECK_STATUS(
        rg_allreduce(rg_world(w->ctx), b.send, b.recv, mine, RG_U8, RG_SUM),
        RG_ERR_MISMATCH);
    CHECK(strstr(rg_last_error(), "allreduce on the world: count "));
    CHECK_BYTES(b.recv, 77, larger + BEHIND);
}

static void agree(world *w, buffers b, uint64_t bytes, int turn)
{
    memset(b.send, w->index + turn, bytes);
    CHECK_OK(
        rg_allreduce(rg_world(w->ctx), b.send, b.recv, bytes, RG_U8, RG_SUM));
    const int want = (w->n * (w->n - 1) / 2 + w->n * turn) & 0xff;
    CHECK_BYTES(b.recv, want, bytes);
}

static void all(world *w, void *arg)
{
    (void)arg;
    buffers b = {malloc(MOST), malloc(MOST + BEHIND)};
    CHECK(b.send != NULL && b.recv != NULL);
    int turn = 0;
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < SIZES; k++, turn++) {
            if (i == k)
                continue;
            const bool is_odd = w->host_of[w->index] == 1;
            const int times = turn % 3 + 1; /* in a row */
            for (int t = 0; t < times; t++)
                differ(w, b, sizes[is_odd ? k : i], sizes[is_odd ? i : k]);
            agree(w, b, sizes[1 + turn % (SIZES - 1)], turn);
        }
    free(b.send);
    free(b.recv);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
