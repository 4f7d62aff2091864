/* A rank of an allgather sends from the program's memory, which another
 * processor reads faster than what was just copied, unless the others' parts
 * come there.
 *
 * Covers: move.c */
#include "tests/mpi/mpi_check.h"

#define COUNT ((uint64_t)16384)

static int data[COUNT], all[2 * COUNT];
static const void *sent;

RG_API int MPI_Isend(const void *from, int n, MPI_Datatype type, int to,
                     int tag, MPI_Comm comm, MPI_Request *request)
{
    if (n == (int)COUNT)
        sent = from;
    return PMPI_Isend(from, n, type, to, tag, comm, request);
}

static rg_status gather_unevenly(rg_set *set, const int *own)
{
    const uint64_t counts[] = {COUNT, COUNT};
    rg_req *req = NULL;
    const rg_status st = rg_allgatherv_start(set, own, COUNT, all, counts, NULL,
                                             RG_I32, NULL, &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}

static void gather_from(rg_set *set, int *own, const int *sent_from,
                        bool is_uneven)
{
    memset(all, 0, sizeof all);
    for (uint64_t i = 0; i < COUNT; i++)
        own[i] = rg_set_rank(set) + 1;
    if (is_uneven)
        CHECK_OK(gather_unevenly(set, own));
    else
        CHECK_OK(rg_allgather(set, own, all, COUNT, RG_I32));
    CHECK(sent == sent_from);
    for (uint64_t i = 0; i < 2 * COUNT; i++)
        CHECK_EQ(all[i], i < COUNT ? 1 : 2);
}

int main(void)
{
    rg_ctx *ctx = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    rg_set *world = rg_world(ctx);
    int *part = all + (uint64_t)rg_rank(ctx) * COUNT;
    for (int is_uneven = 0; is_uneven < 2; is_uneven++) {
        gather_from(world, data, data, is_uneven);
        gather_from(world, part, part, is_uneven);
    }
    gather_from(world, all, part, false); /* where rank 0's part comes */
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
