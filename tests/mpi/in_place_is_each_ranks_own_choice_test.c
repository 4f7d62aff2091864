/* Whether an operation is in place is each rank's own choice, where MPI wants
 * all ranks of a collective to have made the same: in sets of so many members
 * that MPI's own collectives are used, too.
 *
 * Covers: move.c stage.c */
#include <stdbool.h>

#include "tests/mpi/mpi_check.h"

#define MOST 140000 /* more than a piece */
#define WAIT 60000  /* ms */

static rg_ctx *ctx;
static int32_t send[MOST * MEMBERS_MAX], recv[MOST * MEMBERS_MAX];

static void finish(rg_req *req)
{
    CHECK_OK(rg_wait(&req, WAIT));
}

static void fill(int32_t *data, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        data[i] = (int32_t)i * 3 + rg_rank(ctx);
}

static void allreduce(uint64_t count, bool is_in_place)
{
    const int n = rg_size(ctx);
    int32_t *from = is_in_place ? recv : send;
    rg_req *req = NULL;
    fill(from, count);
    CHECK_OK(rg_allreduce_start(rg_world(ctx), from, recv, count, RG_I32,
                                RG_SUM, NULL, &req));
    finish(req);
    for (uint64_t i = 0; i < count; i++)
        CHECK_EQ(recv[i], n * (int32_t)i * 3 + n * (n - 1) / 2);
}

static void alltoall(uint64_t count, bool is_in_place)
{
    const uint64_t n = (uint64_t)rg_size(ctx), me = (uint64_t)rg_rank(ctx);
    int32_t *from = is_in_place ? recv : send;
    rg_req *req = NULL;
    fill(from, n * count);
    CHECK_OK(rg_alltoall_start(rg_world(ctx), from, recv, count, RG_I32, NULL,
                               &req));
    finish(req);
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t i = 0; i < count; i++)
            CHECK_EQ(recv[r * count + i], (me * count + i) * 3 + r);
}

/* In place on all ranks, which needs equal counts of each two. Some parts are
 * empty, and where these lie says nothing. */
static void alltoallv(uint64_t count)
{
    const uint64_t n = (uint64_t)rg_size(ctx), me = (uint64_t)rg_rank(ctx);
    uint64_t counts[MEMBERS_MAX], places[MEMBERS_MAX];
    rg_req *req = NULL;
    fill(recv, n * count);
    for (uint64_t r = 0; r < n; r++) {
        const bool is_empty = (me + r) % 3 == 0;
        counts[r] = is_empty ? 0 : count;
        places[r] = is_empty ? UINT64_C(1) << 40 : r * count;
    }
    CHECK_OK(rg_alltoallv_start(rg_world(ctx), recv, counts, places, recv,
                                counts, places, RG_I32, NULL, &req));
    finish(req);
    for (uint64_t r = 0; r < n; r++)
        for (uint64_t i = 0; i < counts[r]; i++)
            CHECK_EQ(recv[r * count + i], (me * count + i) * 3 + r);
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    const uint64_t counts[] = {1, 700, 40000, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        allreduce(counts[i], rg_rank(ctx) % 2 == 0);
        allreduce(counts[i], rg_rank(ctx) % 3 == 1);
        if (counts[i] == MOST && rg_size(ctx) > 8)
            continue; /* a gigabyte */
        alltoall(counts[i], rg_rank(ctx) % 2 == 1);
        alltoallv(counts[i]);
    }
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
