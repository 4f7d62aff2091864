/* One member gives an operation up that the other never starts. When the set is
 * given back its messages are received: no communicator is freed with a message
 * in it, and the sends end, so that their memory does not lie with MPI when
 * that ends.
 *
 * Covers: mpi_comm.c */
#include <time.h>

#include "tests/mpi/mpi_check.h"

#define FEW  3         /* a message that is copied on its way */
#define MANY (1 << 17) /* and one that is not */

static int in[MANY], out[MANY]; /* MPI's, once an operation is given up */
static MPI_Request sent = MPI_REQUEST_NULL; /* the long one */

RG_API int MPI_Isend(const void *data, int n, MPI_Datatype type, int to,
                     int tag, MPI_Comm comm, MPI_Request *request)
{
    const int code = PMPI_Isend(data, n, type, to, tag, comm, request);
    if (n > MANY / 4)
        sent = *request;
    return code;
}

RG_API int MPI_Comm_free(MPI_Comm *comm)
{
    int is_there = 0;
    PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, *comm, &is_there,
                MPI_STATUS_IGNORE);
    CHECK(!is_there);
    return PMPI_Comm_free(comm);
}

static void claim_sent(void)
{
    const time_t until = time(NULL) + 20;
    int is_done = 0;
    while (!is_done && time(NULL) < until)
        PMPI_Request_get_status(sent, &is_done, MPI_STATUS_IGNORE);
    CHECK(is_done);
}

static void give_up(rg_set *set, uint64_t n)
{
    const rg_op_params soon = {.size = sizeof soon, .timeout_ms = 100};
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(set, in, out, n, RG_I32, RG_SUM, &soon, &req));
    CHECK_STATUS(rg_wait(&req, 10000), RG_ERR_TIMEOUT);
}

static void one_gives_up(rg_ctx *ctx, uint64_t n)
{
    const int ranks[] = {0, 1};
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(ctx, ranks, 2, NULL, &set));
    if (rg_rank(ctx) == 0)
        give_up(set, n);
    CHECK_OK(rg_barrier(rg_world(ctx)));
    if (rg_rank(ctx) == 1)
        CHECK_OK(rg_set_destroy(set));
    CHECK_OK(rg_barrier(rg_world(ctx)));
}

int main(void)
{
    rg_ctx *ctx = NULL;
    CHECK_OK(rg_init(NULL, &ctx));
    one_gives_up(ctx, FEW);
    one_gives_up(ctx, MANY);
    if (rg_rank(ctx) == 0)
        claim_sent();
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
