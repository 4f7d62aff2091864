/* The sum of F16 elements may be infinite where their average, or what a
 * postscale makes of it, is not: the result is right on any number of hosts and
 * whichever way it goes, and a postscale above 1 makes no part infinite that
 * the whole is not.
 *
 * Covers: half.c transport/reduce.c */
#include "tests/lib/world.h"

#define MOST       200003
#define FORTY_THOU 0x78e2 /* 40000 */
#define LESS_SO    0xf8e1 /* -39968 */

static const uint64_t counts[] = {1, 100, 4000, 30000, MOST};

static void reduce(world *w, const uint16_t *send, uint16_t *recv,
                   uint64_t count, rg_op op, double postscale)
{
    const rg_op_params params = {.size = sizeof params, .postscale = postscale};
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(rg_world(w->ctx), send, recv, count, RG_F16, op,
                                &params, &req));
    CHECK_OK(rg_wait(&req, -1));
}

static void fill(uint16_t *data, uint64_t count, uint16_t value)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = value;
}

static void check_all(const uint16_t *data, uint64_t count, uint16_t want)
{
    for (uint64_t i = 0; i < count; i++)
        CHECK_EQ(data[i], want);
}

static void check(world *w, uint64_t count, uint16_t *send, uint16_t *recv)
{
    fill(send, count, FORTY_THOU);
    reduce(w, send, recv, count, RG_AVG, 0);
    check_all(recv, count, FORTY_THOU);
    reduce(w, send, recv, count, RG_SUM, 1.0 / w->n);
    check_all(recv, count, FORTY_THOU);
    reduce(w, send, recv, count, RG_AVG, 0.5);
    check_all(recv, count, 0x74e2); /* 20000 */
    reduce(w, send, recv, count, RG_MAX, 0.5);
    check_all(recv, count, 0x74e2);
    reduce(w, send, recv, count, RG_MIN, -1);
    check_all(recv, count, 0xf8e2);
    if (w->index == w->n - 1)
        fill(send, count, LESS_SO);
    else if (w->index > 0)
        fill(send, count, 0);
    reduce(w, send, recv, count, RG_SUM, 2);
    check_all(recv, count, 0x5400); /* 64 */
}

static void all(world *w, void *arg)
{
    (void)arg;
    uint16_t *own = malloc(2 * MOST * sizeof *own);
    CHECK(own != NULL);
    for (int i = 0; i < 5; i++) {
        uint16_t *given = (uint16_t *)(void *)w->alloc;
        check(w, counts[i], own, own + MOST);
        check(w, counts[i], given, given + MOST);
    }
    free(own);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
