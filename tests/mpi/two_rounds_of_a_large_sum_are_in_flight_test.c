/* While a round of a large sum is computed, the next one's slices travel: both
 * are posted before the first is waited for.
 *
 * Covers: mpi_reduce.c */
#include "tests/mpi/mpi_check.h"

#define COUNT ((uint64_t)1 << 20) /* 8 rounds between two ranks */
#define SLICE (1 << 16)

static float data[COUNT], sum[COUNT];
static int posted, at_once; /* slices; those before the first wait */

RG_API int MPI_Isend(const void *from, int n, MPI_Datatype type, int to,
                     int tag, MPI_Comm comm, MPI_Request *request)
{
    posted += n == SLICE;
    return PMPI_Isend(from, n, type, to, tag, comm, request);
}

RG_API int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    if (at_once == 0)
        at_once = posted;
    return PMPI_Test(request, flag, status);
}

int main(void)
{
    rg_ctx *ctx = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    CHECK_OK(rg_allreduce(rg_world(ctx), data, sum, COUNT, RG_F32, RG_SUM));
    CHECK_EQ(at_once, 2);
    CHECK_EQ(posted, 16); /* a slice and a result of each round */
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
