/* Counts above 2^27 elements: more than one message, and more than one call of
 * MPI's own broadcast, which both stop there.
 *
 * Covers: elements.c move.c */
#include "tests/mpi/mpi_check.h"

#define COUNT (((uint64_t)1 << 27) + 5)

static rg_ctx *ctx;
static int rank, size;

/* A byte of that rank's that tells places apart, across the border too. */
static unsigned char byte_of(int of, uint64_t i)
{
    return (unsigned char)((i ^ i >> 8 ^ i >> 24) * 3 + (uint64_t)of * 101);
}

static void fill(unsigned char *data, int of)
{
    for (uint64_t i = 0; i < COUNT; i++)
        data[i] = byte_of(of, i);
}

static void claim(const char *what, const unsigned char *data, int of)
{
    for (uint64_t i = 0; i < COUNT; i++)
        if (data[i] != byte_of(of, i))
            CHECK_FAIL("%s: byte %llu of rank %d is %d on rank %d", what,
                       (unsigned long long)i, of, data[i], rank);
}

static void gathered(unsigned char *all)
{
    unsigned char *own = all + (uint64_t)rank * COUNT;
    fill(own, rank);
    CHECK_OK(rg_allgather(rg_world(ctx), own, all, COUNT, RG_U8));
    for (int r = 0; r < size; r++)
        claim("allgather", all + (uint64_t)r * COUNT, r);
}

static void broadcast(unsigned char *data)
{
    fill(data, rank);
    CHECK_OK(rg_broadcast(rg_world(ctx), data, COUNT, RG_U8, size - 1));
    claim("broadcast", data, size - 1);
}

/* In place, and rounds of messages behind it. */
static void most(unsigned char *data)
{
    fill(data, rank);
    CHECK_OK(rg_allreduce(rg_world(ctx), data, data, COUNT, RG_U8, RG_BXOR));
    for (uint64_t i = 0; i < COUNT; i++) {
        unsigned char x = 0;
        for (int r = 0; r < size; r++)
            x ^= byte_of(r, i);
        if (data[i] != x)
            CHECK_FAIL("allreduce: byte %llu is %d and not %d",
                       (unsigned long long)i, data[i], x);
    }
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    rank = rg_rank(ctx);
    size = rg_size(ctx);
    unsigned char *all = malloc((size_t)size * COUNT);
    CHECK(all != NULL);
    gathered(all);
    broadcast(all);
    most(all);
    free(all);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
