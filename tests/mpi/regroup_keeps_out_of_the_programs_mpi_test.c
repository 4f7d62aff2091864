/* What the program has in flight, its error handlers and its attributes are
 * untouched by Regroup, and no communicator of Regroup's is left over. Creating
 * and freeing is counted here, where the library's calls come through.
 *
 * Covers: mpi_comm.c mpi/world.c */
#include "tests/mpi/mpi_check.h"

#define CYCLES 200

static rg_ctx *ctx;
static int made, freed, copied, failures, rank, size;
static MPI_Comm newest;

RG_API int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag,
                                 MPI_Comm *new)
{
    const int code = PMPI_Comm_create_group(comm, group, tag, new);
    made += code == MPI_SUCCESS && *new != MPI_COMM_NULL;
    newest = *new;
    return code;
}

RG_API int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *new)
{
    const int code = PMPI_Comm_create(comm, group, new);
    made += code == MPI_SUCCESS && *new != MPI_COMM_NULL;
    return code;
}

RG_API int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *new)
{
    made++;
    return PMPI_Comm_dup(comm, new);
}

RG_API int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info,
                               MPI_Comm *new)
{
    made++;
    return PMPI_Comm_split_type(comm, type, key, info, new);
}

RG_API int MPI_Comm_free(MPI_Comm *comm)
{
    freed++;
    return PMPI_Comm_free(comm);
}

static int on_copy(MPI_Comm comm, int key, void *extra, void *in, void *out,
                   int *is_copied)
{
    (void)comm;
    (void)key;
    (void)extra;
    (void)in;
    (void)out;
    *is_copied = 0;
    copied++;
    return MPI_SUCCESS;
}

static void on_error(MPI_Comm *comm, int *code, ...)
{
    (void)comm;
    (void)code;
    failures++;
}

/* A failure on a set's communicator comes back to Regroup. */
static void claim_errors_return(void)
{
    MPI_Errhandler handler;
    MPI_Comm_get_errhandler(newest, &handler);
    CHECK(handler == MPI_ERRORS_RETURN);
}

static void cycle(void)
{
    const int one = 1;
    int ranks[MEMBERS_MAX], sum = 0;
    for (int i = 0; i < size; i++)
        ranks[i] = size - 1 - i;
    rg_set *set = NULL;
    CHECK_OK(rg_set_create(ctx, ranks, size, NULL, &set));
    CHECK_OK(rg_allreduce(set, &one, &sum, 1, RG_I32, RG_SUM));
    CHECK_EQ(sum, size);
    claim_errors_return();
    CHECK_OK(rg_set_destroy(set));
}

static void lend(void)
{
    MPI_Comm lent;
    MPI_Errhandler handler, own;
    CHECK_OK(rg_set_mpi_comm(rg_world(ctx), &lent));
    MPI_Comm_get_errhandler(lent, &handler);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &own);
    CHECK(handler == own);
    MPI_Errhandler_free(&handler);
    MPI_Errhandler_free(&own);
    MPI_Comm_free(&lent);
}

/* Begun before Regroup and ended after it: a receive from any rank with any
 * tag, and a reduction. */
typedef struct traffic {
    MPI_Request request[2];
    int from, sum;
} traffic;

static void begin(traffic *t)
{
    t->from = -1;
    t->sum = 0;
    MPI_Irecv(&t->from, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
              &t->request[0]);
    MPI_Iallreduce(&rank, &t->sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                   &t->request[1]);
}

static void claim_ends(traffic *t)
{
    const int left = (rank + size - 1) % size;
    CHECK_EQ(t->from, -1);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&rank, 1, MPI_INT, (rank + 1) % size, 99, MPI_COMM_WORLD);
    MPI_Wait(&t->request[0], MPI_STATUS_IGNORE);
    MPI_Wait(&t->request[1], MPI_STATUS_IGNORE);
    CHECK_EQ(t->from, left);
    CHECK_EQ(t->sum, size * (size - 1) / 2);
}

int main(void)
{
    int level = 0, key = 0;
    MPI_Errhandler handler, now;
    traffic t;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_create_errhandler(on_error, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_create_keyval(on_copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_WORLD, key, &key);
    begin(&t);
    CHECK_OK(rg_init(NULL, &ctx));
    for (int i = 0; i < CYCLES; i++)
        cycle();
    lend();
    CHECK_OK(rg_finalize(ctx));
    claim_ends(&t);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &now);
    CHECK(now == handler);
    MPI_Errhandler_free(&now);
    CHECK_EQ(failures, 0);
    CHECK_EQ(copied, 0);
    CHECK(made > 0);
    CHECK_EQ(freed, made);
    MPI_Errhandler_free(&handler);
    MPI_Finalize();
    return 0;
}
