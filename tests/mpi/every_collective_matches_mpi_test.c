/* Every kind, type and op, on sets of every shape, against MPI itself where it
 * has the type, and against serial computation everywhere. */
#include <math.h>

#include "tests/mpi/mpi_check.h"

static rg_ctx *ctx;

/* 0, 1, odd; some KiB, where one way follows another; by messages whatever the
 * type */
static const uint64_t counts[] = {0, 1, 7, 1500, 4100, 33000};
#define COUNTS (sizeof counts / sizeof *counts)
#define LARGE  2000
#define MOST   ((uint64_t)800001) /* two rounds of messages */
#define FEW    16                 /* members; more meet a part of this */
#define GUARD  0x5a

typedef struct scene {
    rg_set *set;
    const shape *shape;
    MPI_Comm comm; /* lent */
    int rank, n;
    rg_type type;
    rg_op op;
    uint64_t count;
    char *send, *recv, *again;
} scene;

static size_t bytes_of(const scene *s, uint64_t count)
{
    return (size_t)count * rg_type_size(s->type);
}

static void claim(const scene *s, const char *what, uint64_t i, double expected)
{
    char one[8];
    put(s->type, one, 0, expected);
    const double got = get(s->type, s->recv, i), right = get(s->type, one, 0);
    if (got != right)
        CHECK_FAIL("%s of %llu %s, %s, on %s: element %llu on rank %d of %d is "
                   "%g and not %g",
                   what, (unsigned long long)s->count, type_names[s->type],
                   op_names[s->op], s->shape->name, (unsigned long long)i,
                   s->rank, s->n, got, right);
}

static void fill(const scene *s, char *data, int rank, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        put(s->type, data, i, element_of(rank, i));
}

static void forget(const scene *s, uint64_t count)
{
    memset(s->recv, GUARD, bytes_of(s, count) + 1);
}

static void claim_end(const scene *s, uint64_t count)
{
    CHECK_EQ(s->recv[bytes_of(s, count)], GUARD);
}

/* Element i of the whole, over the members. */
static double whole(const scene *s, uint64_t i)
{
    double x[MEMBERS_MAX], one[1];
    for (int m = 0; m < s->n; m++) {
        put(s->type, one, 0, element_of(m, i));
        x[m] = get(s->type, one, 0);
    }
    return computed(s->type, s->op, x, s->n);
}

/* ------------------------------------------------------------- reductions */

static MPI_Datatype mpi_type(rg_type type)
{
    switch (type) {
    case RG_U8:
        return MPI_UINT8_T;
    case RG_I8:
        return MPI_INT8_T;
    case RG_I32:
        return MPI_INT32_T;
    case RG_U32:
        return MPI_UINT32_T;
    case RG_I64:
        return MPI_INT64_T;
    case RG_U64:
        return MPI_UINT64_T;
    case RG_F32:
        return MPI_FLOAT;
    case RG_F64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op mpi_op(rg_op op)
{
    const MPI_Op ops[] = {MPI_SUM,  MPI_OP_NULL, MPI_MIN, MPI_MAX,
                          MPI_PROD, MPI_LAND,    MPI_LOR, MPI_LXOR,
                          MPI_BAND, MPI_BOR,     MPI_BXOR};
    return ops[op];
}

/* Local, as MPI does it on the same data. */
static void claim_as_mpi(scene *s)
{
    if (mpi_type(s->type) == MPI_DATATYPE_NULL ||
        mpi_op(s->op) == MPI_OP_NULL || s->n == 1)
        return;
    fill(s, s->send, s->rank, s->count);
    MPI_Allreduce(s->send, s->again, (int)s->count, mpi_type(s->type),
                  mpi_op(s->op), s->comm);
    CHECK(memcmp(s->again, s->recv, bytes_of(s, s->count)) == 0);
}

static void allreduce(scene *s)
{
    fill(s, s->send, s->rank, s->count);
    forget(s, s->count);
    CHECK_OK(rg_allreduce(s->set, s->send, s->recv, s->count, s->type, s->op));
    for (uint64_t i = 0; i < s->count; i++)
        claim(s, "allreduce", i, whole(s, i));
    claim_end(s, s->count);
    claim_as_mpi(s);
    fill(s, s->recv, s->rank, s->count);
    CHECK_OK(rg_allreduce(s->set, s->recv, s->recv, s->count, s->type, s->op));
    for (uint64_t i = 0; i < s->count; i++)
        claim(s, "allreduce in place", i, whole(s, i));
}

static void reduce(scene *s)
{
    for (int root = 0; root < s->n; root++) {
        fill(s, s->send, s->rank, s->count);
        forget(s, s->count);
        CHECK_OK(rg_reduce(s->set, s->send, s->recv, s->count, s->type, s->op,
                           root));
        for (uint64_t i = 0; i < s->count && s->rank == root; i++)
            claim(s, "reduce", i, whole(s, i));
        claim_end(s, s->count);
        if (s->rank != root && s->count > 0)
            CHECK_EQ(s->recv[0], GUARD);
        fill(s, s->recv, s->rank, s->count);
        CHECK_OK(rg_reduce(s->set, s->recv, s->recv, s->count, s->type, s->op,
                           root));
        for (uint64_t i = 0; i < s->count && s->rank == root; i++)
            claim(s, "reduce in place", i, whole(s, i));
    }
}

static void reduce_scatter(scene *s)
{
    const uint64_t all = s->count * (uint64_t)s->n;
    const uint64_t mine = s->count * (uint64_t)s->rank;
    fill(s, s->send, s->rank, all);
    forget(s, s->count);
    CHECK_OK(
        rg_reduce_scatter(s->set, s->send, s->recv, s->count, s->type, s->op));
    for (uint64_t i = 0; i < s->count; i++)
        claim(s, "reduce_scatter", i, whole(s, mine + i));
    claim_end(s, s->count);
    char *own = s->send + bytes_of(s, mine);
    CHECK_OK(rg_reduce_scatter(s->set, s->send, own, s->count, s->type, s->op));
    memcpy(s->recv, own, bytes_of(s, s->count));
    for (uint64_t i = 0; i < s->count; i++)
        claim(s, "reduce_scatter in place", i, whole(s, mine + i));
}

static void reduce_scatterv(scene *s)
{
    uint64_t part[MEMBERS_MAX], mine = 0, all = 0;
    for (int m = 0; m < s->n; m++) {
        part[m] = s->count / (uint64_t)(m + 1) + (m == 2);
        mine += m < s->rank ? part[m] : 0;
        all += part[m];
    }
    fill(s, s->send, s->rank, all);
    forget(s, part[s->rank]);
    rg_req *req = NULL;
    CHECK_OK(rg_reduce_scatterv_start(s->set, s->send, s->recv, part, s->type,
                                      s->op, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    for (uint64_t i = 0; i < part[s->rank]; i++)
        claim(s, "reduce_scatterv", i, whole(s, mine + i));
    claim_end(s, part[s->rank]);
}

static void scaled(scene *s)
{
    const rg_op_params params = {
        .size = sizeof params, .prescale = 2, .postscale = 0.25};
    fill(s, s->send, s->rank, s->count);
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(s->set, s->send, s->recv, s->count, s->type,
                                RG_SUM, &params, &req));
    CHECK_OK(rg_wait(&req, -1));
    const int is_integer = s->type == RG_I32 || s->type == RG_U8;
    for (uint64_t i = 0; i < s->count; i++) {
        const double x = whole(s, i) * 0.5;
        claim(s, "scaled allreduce", i, is_integer ? trunc(x) : x);
    }
}

/* Sums that depend on their order. */
static void same_bits(scene *s)
{
    float *data = (float *)s->send;
    s->type = RG_F32;
    for (uint64_t i = 0; i < s->count; i++)
        data[i] = 1.0f / (float)(3 + 7 * (uint64_t)s->rank + i);
    CHECK_OK(rg_allreduce(s->set, data, s->recv, s->count, s->type, RG_SUM));
    memcpy(s->again, s->recv, bytes_of(s, s->count));
    MPI_Bcast(s->again, (int)s->count, MPI_FLOAT, 0, s->comm);
    CHECK(memcmp(s->again, s->recv, bytes_of(s, s->count)) == 0);
}

/* ------------------------------------------------------------------ moving */

static void broadcast(scene *s)
{
    for (int root = 0; root < s->n; root++) {
        forget(s, s->count);
        if (s->rank == root)
            fill(s, s->recv, root, s->count);
        CHECK_OK(rg_broadcast(s->set, s->recv, s->count, s->type, root));
        for (uint64_t i = 0; i < s->count; i++)
            claim(s, "broadcast", i, element_of(root, i));
        claim_end(s, s->count);
    }
}

static void claim_gathered(scene *s, const char *what)
{
    for (int m = 0; m < s->n; m++)
        for (uint64_t i = 0; i < s->count; i++)
            claim(s, what, (uint64_t)m * s->count + i, element_of(m, i));
    claim_end(s, (uint64_t)s->n * s->count);
}

static void allgather(scene *s)
{
    const uint64_t all = (uint64_t)s->n * s->count;
    fill(s, s->send, s->rank, s->count);
    forget(s, all);
    CHECK_OK(rg_allgather(s->set, s->send, s->recv, s->count, s->type));
    claim_gathered(s, "allgather");
    forget(s, all);
    char *own = s->recv + bytes_of(s, (uint64_t)s->rank * s->count);
    fill(s, own, s->rank, s->count);
    CHECK_OK(rg_allgather(s->set, own, s->recv, s->count, s->type));
    claim_gathered(s, "allgather in place");
    forget(s, all);
    fill(s, s->recv, s->rank, s->count);
    CHECK_OK(rg_allgather(s->set, s->recv, s->recv, s->count, s->type));
    claim_gathered(s, "allgather from the front");
}

/* Rank m has count / (m + 1) elements, and they lie in the opposite order with
 * gaps of one. */
static void parts(const scene *s, uint64_t *count, uint64_t *place)
{
    uint64_t at = 0;
    for (int m = s->n - 1; m >= 0; m--) {
        count[m] = s->count / (uint64_t)(m + 1);
        place[m] = at;
        at += count[m] + 1;
    }
}

static void allgatherv(scene *s)
{
    uint64_t count[MEMBERS_MAX], place[MEMBERS_MAX];
    parts(s, count, place);
    fill(s, s->send, s->rank, count[s->rank]);
    rg_req *req = NULL;
    CHECK_OK(rg_allgatherv_start(s->set, s->send, count[s->rank], s->recv,
                                 count, place, s->type, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    for (int m = 0; m < s->n; m++)
        for (uint64_t i = 0; i < count[m]; i++)
            claim(s, "allgatherv", place[m] + i, element_of(m, i));
}

static void gather_scatter(scene *s, int root)
{
    const uint64_t all = (uint64_t)s->n * s->count;
    fill(s, s->send, s->rank, s->count);
    forget(s, all);
    CHECK_OK(rg_gather(s->set, s->send, s->recv, s->count, s->type, root));
    if (s->rank == root)
        claim_gathered(s, "gather");
    fill(s, s->send, root, all);
    forget(s, s->count);
    CHECK_OK(rg_scatter(s->set, s->send, s->recv, s->count, s->type, root));
    const uint64_t mine = (uint64_t)s->rank * s->count;
    for (uint64_t i = 0; i < s->count; i++)
        claim(s, "scatter", i, element_of(root, mine + i));
    claim_end(s, s->count);
}

static void gatherv_scatterv(scene *s, int root)
{
    uint64_t count[MEMBERS_MAX], place[MEMBERS_MAX];
    parts(s, count, place);
    fill(s, s->send, s->rank, count[s->rank]);
    const int is_root = s->rank == root;
    rg_req *req = NULL;
    CHECK_OK(rg_gatherv_start(
        s->set, s->send, count[s->rank], s->recv, is_root ? count : NULL,
        is_root ? place : NULL, s->type,
        &(rg_op_params){.size = sizeof(rg_op_params), .root = root}, &req));
    CHECK_OK(rg_wait(&req, -1));
    for (int m = 0; m < s->n && is_root; m++)
        for (uint64_t i = 0; i < count[m]; i++)
            claim(s, "gatherv", place[m] + i, element_of(m, i));
    fill(s, s->send, root, place[0] + count[0]);
    forget(s, count[s->rank]);
    CHECK_OK(rg_scatterv_start(
        s->set, s->send, is_root ? count : NULL, is_root ? place : NULL,
        s->recv, count[s->rank], s->type,
        &(rg_op_params){.size = sizeof(rg_op_params), .root = root}, &req));
    CHECK_OK(rg_wait(&req, -1));
    for (uint64_t i = 0; i < count[s->rank]; i++)
        claim(s, "scatterv", i, element_of(root, place[s->rank] + i));
    claim_end(s, count[s->rank]);
}

static void claim_alltoall(scene *s, const char *what)
{
    for (int m = 0; m < s->n; m++)
        for (uint64_t i = 0; i < s->count; i++)
            claim(s, what, (uint64_t)m * s->count + i,
                  element_of(m, (uint64_t)s->rank * s->count + i));
}

static void alltoall(scene *s)
{
    const uint64_t all = (uint64_t)s->n * s->count;
    fill(s, s->send, s->rank, all);
    forget(s, all);
    CHECK_OK(rg_alltoall(s->set, s->send, s->recv, s->count, s->type));
    claim_alltoall(s, "alltoall");
    claim_end(s, all);
    fill(s, s->recv, s->rank, all);
    CHECK_OK(rg_alltoall(s->set, s->recv, s->recv, s->count, s->type));
    claim_alltoall(s, "alltoall in place");
}

/* Rank a sends a + b elements to rank b, a part of count at most. */
static void alltoallv(scene *s)
{
    uint64_t to[MEMBERS_MAX], to_at[MEMBERS_MAX], from[MEMBERS_MAX];
    uint64_t from_at[MEMBERS_MAX], at = 0;
    for (int m = 0; m < s->n; m++) {
        to[m] = from[m] =
            s->count * (uint64_t)(m + s->rank) / (2 * (uint64_t)s->n);
        to_at[m] = (uint64_t)m * (s->count + 1);
        from_at[m] = at;
        at += from[m];
    }
    fill(s, s->send, s->rank, (uint64_t)s->n * (s->count + 1));
    forget(s, at);
    rg_req *req = NULL;
    CHECK_OK(rg_alltoallv_start(s->set, s->send, to, to_at, s->recv, from,
                                from_at, s->type, NULL, &req));
    CHECK_OK(rg_wait(&req, -1));
    const uint64_t begin = (uint64_t)s->rank * (s->count + 1);
    for (int m = 0; m < s->n; m++)
        for (uint64_t i = 0; i < from[m]; i++)
            claim(s, "alltoallv", from_at[m] + i, element_of(m, begin + i));
    claim_end(s, at);
}

/* ------------------------------------------------------------------ scenes */

/* A large one takes long, and has no other way for each op; nor has one of many
 * members. */
static int is_worth_it(const scene *s)
{
    const int is_one_of_two = s->op == RG_AVG || s->op == RG_BOR;
    return rg_op_has(s->op, s->type) && (s->count < LARGE || is_one_of_two) &&
           (s->n <= FEW || is_one_of_two || s->op == RG_SUM);
}

static void reductions(scene *s)
{
    for (int type = 0; type <= RG_BOOL; type++)
        for (int op = 0; op <= RG_BXOR; op++) {
            s->type = (rg_type)type;
            s->op = (rg_op)op;
            if (!is_worth_it(s))
                continue;
            allreduce(s);
            reduce(s);
            reduce_scatter(s);
            reduce_scatterv(s);
        }
    static const rg_type types[] = {RG_F32, RG_F64, RG_I32, RG_F16, RG_BF16};
    s->op = RG_SUM;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        s->type = types[i];
        scaled(s);
    }
    same_bits(s);
}

static void moves(scene *s)
{
    static const rg_type types[] = {RG_U8, RG_F16, RG_F32, RG_I64};
    s->op = RG_SUM;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        s->type = types[t];
        broadcast(s);
        allgather(s);
        allgatherv(s);
        for (int root = 0; root < s->n; root++) {
            gather_scatter(s, root);
            gatherv_scatterv(s, root);
        }
        alltoall(s);
        alltoallv(s);
        CHECK_OK(rg_barrier(s->set));
    }
}

static void play(scene *s)
{
    for (size_t i = 0; i < COUNTS; i++) {
        s->count = counts[i];
        if (s->count < LARGE || (s->n <= FEW && s->shape->n == rg_size(ctx))) {
            reductions(s);
            moves(s);
        }
    }
    if (rg_size(ctx) > FEW)
        return;
    s->count = MOST / 8;
    s->type = RG_F32;
    s->op = RG_SUM;
    alltoall(s);
    allgather(s);
    reduce_scatter(s);
    s->count = MOST;
    allreduce(s);
    s->type = RG_BF16;
    s->op = RG_AVG;
    allreduce(s);
}

int main(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    shape shapes[SHAPES_MAX];
    const int n = shapes_of(rg_size(ctx), shapes);
    const size_t room = 64 + 8 * (size_t)MOST;
    scene s = {
        .send = malloc(room), .recv = malloc(room), .again = malloc(room)};
    for (int k = 0; k < n; k++) {
        CHECK_OK(rg_set_create(ctx, shapes[k].rank, shapes[k].n, NULL, &s.set));
        s.shape = &shapes[k];
        s.n = shapes[k].n;
        s.rank = rg_set_rank(s.set);
        if (s.rank >= 0) {
            CHECK_OK(rg_set_mpi_comm(s.set, &s.comm));
            play(&s);
            MPI_Comm_free(&s.comm);
        }
        CHECK_OK(rg_set_destroy(s.set));
    }
    free(s.send);
    free(s.recv);
    free(s.again);
    CHECK_OK(rg_finalize(ctx));
    return 0;
}
