/* Where the Regroup thread may not call MPI, a request costs as many calls of
 * MPI as its messages do without Regroup: two each, to post it and to see that
 * it is complete; and a look at one that is not complete costs one. Beyond
 * that, ranks compare what they have started: now and then, or never.
 *
 * Covers: mpi_comm.c mpi_reduce.c move.c stage.c check.c */
#include <limits.h>

#include "tests/mpi/mpi_check.h"

#define ROUNDS   64
#define LOOKS    5000
#define EACH     16 /* operations, after which one is compared */
#define COMPARED 6  /* calls for that, at most */

static rg_ctx *ctx;
static rg_set *world;
static MPI_Comm own;
static int me, calls, sends;

RG_API int MPI_Isend(const void *from, int n, MPI_Datatype type, int to,
                     int tag, MPI_Comm comm, MPI_Request *request)
{
    calls++;
    sends++;
    return PMPI_Isend(from, n, type, to, tag, comm, request);
}

RG_API int MPI_Irecv(void *to, int n, MPI_Datatype type, int from, int tag,
                     MPI_Comm comm, MPI_Request *request)
{
    calls++;
    return PMPI_Irecv(to, n, type, from, tag, comm, request);
}

RG_API int MPI_Test(MPI_Request *request, int *is_done, MPI_Status *status)
{
    calls++;
    return PMPI_Test(request, is_done, status);
}

RG_API int MPI_Improbe(int from, int tag, MPI_Comm comm, int *is_there,
                       MPI_Message *message, MPI_Status *status)
{
    calls++;
    return PMPI_Improbe(from, tag, comm, is_there, message, status);
}

/* ------------------------------------------------------------- operations */

static int data[4], result[8];
static const rg_op_params from_one = {.size = sizeof from_one, .root = 1};

static rg_status allreduce(rg_req **req)
{
    return rg_allreduce_start(world, data, result, 2, RG_I32, RG_SUM, NULL,
                              req);
}

static rg_status reduce(rg_req **req)
{
    return rg_reduce_start(world, data, result, 2, RG_I32, RG_SUM, NULL, req);
}

static rg_status reduce_scatter(rg_req **req)
{
    return rg_reduce_scatter_start(world, data, result, 2, RG_I32, RG_SUM, NULL,
                                   req);
}

static rg_status allgather(rg_req **req)
{
    return rg_allgather_start(world, data, result, 2, RG_I32, NULL, req);
}

static rg_status alltoall(rg_req **req)
{
    return rg_alltoall_start(world, data, result, 2, RG_I32, NULL, req);
}

static rg_status gather(rg_req **req)
{
    return rg_gather_start(world, data, result, 2, RG_I32, NULL, req);
}

static rg_status scatter(rg_req **req)
{
    return rg_scatter_start(world, data, result, 2, RG_I32, &from_one, req);
}

static rg_status broadcast(rg_req **req)
{
    return rg_broadcast_start(world, data, 2, RG_I32, &from_one, req);
}

static rg_status barrier(rg_req **req)
{
    return rg_barrier_start(world, NULL, req);
}

static const struct operation {
    const char *name;
    rg_status (*start)(rg_req **req);
    int messages; /* that rank 0 sends and receives */
} operations[] = {{"allreduce", allreduce, 2},
                  {"reduce", reduce, 1},
                  {"reduce_scatter", reduce_scatter, 2},
                  {"allgather", allgather, 2},
                  {"alltoall", alltoall, 2},
                  {"gather", gather, 1},
                  {"scatter", scatter, 1},
                  {"broadcast", broadcast, 1},
                  {"barrier", barrier, 2}};

/* ------------------------------------------------------------------ claims */

static void tell(int to)
{
    MPI_Send(NULL, 0, MPI_INT, to, 1, own);
}

static void hear(int from)
{
    MPI_Recv(NULL, 0, MPI_INT, from, 1, own, MPI_STATUS_IGNORE);
}

/* Rank 0 starts it when rank 1's messages are here: the least of its calls. */
static int calls_of(const struct operation *o, int *all_p)
{
    int least = INT_MAX;
    *all_p = 0;
    for (int i = 0; i < ROUNDS; i++) {
        rg_req *req = NULL;
        if (me == 0)
            hear(1);
        calls = 0;
        CHECK_OK(o->start(&req));
        if (me == 1)
            tell(0);
        CHECK_OK(rg_wait(&req, -1));
        least = calls < least ? calls : least;
        *all_p += calls;
    }
    return least;
}

static void every_message_costs_two_calls(void)
{
    int all;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *o = &operations[i];
        const int least = calls_of(o, &all);
        if (me == 0 && least != 2 * o->messages)
            CHECK_FAIL("%s: %d calls", o->name, least);
    }
}

/* Rank 1 stays away until rank 0 has looked so often. */
static void every_look_costs_a_call(int compared)
{
    rg_req *req = NULL;
    if (me == 1)
        hear(0);
    calls = 0;
    CHECK_OK(allreduce(&req));
    for (int i = 0; i < LOOKS && me == 0; i++)
        CHECK_STATUS(rg_test(&req), RG_IN_PROGRESS);
    const int most = LOOKS + 4 + compared * (LOOKS / 64 + COMPARED);
    if (me == 0 && calls > most)
        CHECK_FAIL("%d calls in %d looks", calls, LOOKS);
    if (me == 0)
        tell(1);
    CHECK_OK(rg_wait(&req, -1));
}

static void few_operations_are_compared(int compared)
{
    sends = 0;
    for (int i = 0; i < ROUNDS; i++)
        CHECK_OK(rg_broadcast(world, data, 2, RG_I32, 1));
    const int most = ROUNDS + compared * ROUNDS / EACH;
    if (me == 1 && sends > most)
        CHECK_FAIL("%d messages in %d broadcasts", sends, ROUNDS);
}

int main(int argc, char **argv)
{
    const int compared = argc > 1 && strcmp(argv[1], "compared") == 0;
    int level = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (level >= MPI_THREAD_MULTIPLE)
        SKIP("this MPI has no lower thread level");
    CHECK_OK(rg_init(NULL, &ctx));
    world = rg_world(ctx);
    me = rg_rank(ctx);
    MPI_Comm_dup(MPI_COMM_WORLD, &own);
    every_message_costs_two_calls();
    every_look_costs_a_call(compared);
    few_operations_are_compared(compared);
    CHECK_OK(rg_finalize(ctx));
    MPI_Comm_free(&own);
    MPI_Finalize();
    return 0;
}
