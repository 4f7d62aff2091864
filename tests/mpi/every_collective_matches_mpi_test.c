/* Every kind, type and op, on sets of every shape, against MPI itself where it
 * has the type, and against serial computation everywhere.
 *
 * Covers: move.c mpi_reduce.c uneven.c mpi_comm.c */
#include "tests/lib/dice.h"
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
    pattern given[MEMBERS_MAX]; /* by member */
    pattern result;             /* of the op over all of them */
} scene;

static size_t bytes_of(const scene *s, uint64_t count)
{
    return (size_t)count * rg_type_size(s->type);
}

/* Element i of a member: so small that sums and products are exact. */
static double element_of(rg_op op, int member, uint64_t i)
{
    const uint64_t h = dice_seed((uint64_t)member, i);
    return op == RG_PROD ? (double)(1 + (member < 6 && h % 2 == 0))
                         : (double)(h % 6);
}

/* An allreduce's result is scaled; 0: it is not. */
static pattern pattern_of_result(const scene *s, double scale)
{
    double values[PATTERN_PERIOD], x[MEMBERS_MAX];
    for (uint64_t i = 0; i < PATTERN_PERIOD; i++) {
        for (int m = 0; m < s->n; m++)
            x[m] = get(s->type, s->given[m].at, i);
        values[i] = scaled(s->type, computed(s->type, s->op, x, s->n), scale);
    }
    return pattern_of(s->type, values);
}

static void begin(scene *s, rg_type type, rg_op op)
{
    double values[PATTERN_PERIOD];
    s->type = type;
    s->op = op;
    for (int m = 0; m < s->n; m++) {
        for (uint64_t i = 0; i < PATTERN_PERIOD; i++)
            values[i] = element_of(op, m, i);
        s->given[m] = pattern_of(type, values);
    }
    s->result = pattern_of_result(s, 0);
}

/* `count` elements from element `at` on are the pattern's from `first` on. */
static void claim(const scene *s, const char *what, uint64_t at,
                  const pattern *p, uint64_t first, uint64_t count)
{
    const char *got = s->recv + bytes_of(s, at);
    const uint64_t i = pattern_wrong(p, got, first, count);
    if (i < count)
        CHECK_FAIL("%s of %llu %s, %s, on %s: element %llu on rank %d of %d is "
                   "%g and not %g",
                   what, (unsigned long long)s->count, type_names[s->type],
                   op_names[s->op], s->shape->name,
                   (unsigned long long)(at + i), s->rank, s->n,
                   get(s->type, got, i),
                   get(s->type, p->at, (first + i) % PATTERN_PERIOD));
}

static void claim_result(const scene *s, const char *what, uint64_t first,
                         uint64_t count)
{
    claim(s, what, 0, &s->result, first, count);
}

static void fill(const scene *s, char *data, int rank, uint64_t count)
{
    pattern_write(&s->given[rank], data, 0, count);
}

static void forget(const scene *s, uint64_t count)
{
    memset(s->recv, GUARD, bytes_of(s, count) + 1);
}

static void claim_end(const scene *s, uint64_t count)
{
    CHECK_EQ(s->recv[bytes_of(s, count)], GUARD);
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
    claim_result(s, "allreduce", 0, s->count);
    claim_end(s, s->count);
    claim_as_mpi(s);
    fill(s, s->recv, s->rank, s->count);
    CHECK_OK(rg_allreduce(s->set, s->recv, s->recv, s->count, s->type, s->op));
    claim_result(s, "allreduce in place", 0, s->count);
}

static void reduce(scene *s, int root)
{
    fill(s, s->send, s->rank, s->count);
    forget(s, s->count);
    CHECK_OK(
        rg_reduce(s->set, s->send, s->recv, s->count, s->type, s->op, root));
    if (s->rank == root)
        claim_result(s, "reduce", 0, s->count);
    claim_end(s, s->count);
    if (s->rank != root && s->count > 0)
        CHECK_EQ(s->recv[0], GUARD);
    fill(s, s->recv, s->rank, s->count);
    CHECK_OK(
        rg_reduce(s->set, s->recv, s->recv, s->count, s->type, s->op, root));
    if (s->rank == root)
        claim_result(s, "reduce in place", 0, s->count);
}

static void reduce_scatter(scene *s)
{
    const uint64_t all = s->count * (uint64_t)s->n;
    const uint64_t mine = s->count * (uint64_t)s->rank;
    fill(s, s->send, s->rank, all);
    forget(s, s->count);
    CHECK_OK(
        rg_reduce_scatter(s->set, s->send, s->recv, s->count, s->type, s->op));
    claim_result(s, "reduce_scatter", mine, s->count);
    claim_end(s, s->count);
    char *own = s->send + bytes_of(s, mine);
    CHECK_OK(rg_reduce_scatter(s->set, s->send, own, s->count, s->type, s->op));
    memcpy(s->recv, own, bytes_of(s, s->count));
    claim_result(s, "reduce_scatter in place", mine, s->count);
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
    claim_result(s, "reduce_scatterv", mine, part[s->rank]);
    claim_end(s, part[s->rank]);
}

static void scaled_allreduce(scene *s)
{
    const rg_op_params params = {
        .size = sizeof params, .prescale = 2, .postscale = 0.25};
    fill(s, s->send, s->rank, s->count);
    rg_req *req = NULL;
    CHECK_OK(rg_allreduce_start(s->set, s->send, s->recv, s->count, s->type,
                                RG_SUM, &params, &req));
    CHECK_OK(rg_wait(&req, -1));
    const pattern half = pattern_of_result(s, 0.5);
    claim(s, "scaled allreduce", 0, &half, 0, s->count);
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

static void broadcast(scene *s, int root)
{
    forget(s, s->count);
    if (s->rank == root)
        fill(s, s->recv, root, s->count);
    CHECK_OK(rg_broadcast(s->set, s->recv, s->count, s->type, root));
    claim(s, "broadcast", 0, &s->given[root], 0, s->count);
    claim_end(s, s->count);
}

static void claim_gathered(scene *s, const char *what)
{
    for (int m = 0; m < s->n; m++)
        claim(s, what, (uint64_t)m * s->count, &s->given[m], 0, s->count);
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
        claim(s, "allgatherv", place[m], &s->given[m], 0, count[m]);
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
    claim(s, "scatter", 0, &s->given[root], mine, s->count);
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
        claim(s, "gatherv", place[m], &s->given[m], 0, count[m]);
    fill(s, s->send, root, place[0] + count[0]);
    forget(s, count[s->rank]);
    CHECK_OK(rg_scatterv_start(
        s->set, s->send, is_root ? count : NULL, is_root ? place : NULL,
        s->recv, count[s->rank], s->type,
        &(rg_op_params){.size = sizeof(rg_op_params), .root = root}, &req));
    CHECK_OK(rg_wait(&req, -1));
    claim(s, "scatterv", 0, &s->given[root], place[s->rank], count[s->rank]);
    claim_end(s, count[s->rank]);
}

static void claim_alltoall(scene *s, const char *what)
{
    for (int m = 0; m < s->n; m++)
        claim(s, what, (uint64_t)m * s->count, &s->given[m],
              (uint64_t)s->rank * s->count, s->count);
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
    const uint64_t to_me = (uint64_t)s->rank * (s->count + 1);
    for (int m = 0; m < s->n; m++)
        claim(s, "alltoallv", from_at[m], &s->given[m], to_me, from[m]);
    claim_end(s, at);
}

/* ------------------------------------------------------------------ scenes */

/* A large one takes long, and has no other way for each op; nor has one of many
 * members, where ways differ between types that MPI has, that it has not, and
 * the halves, which are rounded once. */
static int is_worth_it(const scene *s, rg_type type, rg_op op)
{
    const int is_one_of_two = op == RG_AVG || op == RG_BOR;
    const int is_of_its_kind = type == RG_U8 || type == RG_I64 ||
                               type == RG_F16 || type == RG_F32 ||
                               type == RG_BOOL;
    return rg_op_has(op, type) && (s->count < LARGE || is_one_of_two) &&
           (s->n <= FEW || (is_of_its_kind && (is_one_of_two || op == RG_SUM)));
}

/* Every member; of many the first, the last and one that changes. */
static bool is_root(const scene *s, int root, int turn)
{
    return s->n <= FEW || root == 0 || root == s->n - 1 ||
           root == (turn * 5 + (int)s->count) % s->n;
}

static void reductions(scene *s)
{
    for (int type = 0; type <= RG_BOOL; type++)
        for (int op = 0; op <= RG_BXOR; op++) {
            if (!is_worth_it(s, (rg_type)type, (rg_op)op))
                continue;
            begin(s, (rg_type)type, (rg_op)op);
            allreduce(s);
            for (int root = 0; root < s->n; root++)
                if (is_root(s, root, type + op))
                    reduce(s, root);
            reduce_scatter(s);
            reduce_scatterv(s);
        }
    static const rg_type types[] = {RG_F32, RG_F64, RG_I32, RG_F16, RG_BF16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        begin(s, types[i], RG_SUM);
        scaled_allreduce(s);
    }
    same_bits(s);
}

static void moves(scene *s)
{
    static const rg_type types[] = {RG_U8, RG_F16, RG_F32, RG_I64};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        begin(s, types[t], RG_SUM);
        allgather(s);
        allgatherv(s);
        for (int root = 0; root < s->n; root++) {
            if (!is_root(s, root, (int)t))
                continue;
            broadcast(s, root);
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
    begin(s, RG_F32, RG_SUM);
    alltoall(s);
    allgather(s);
    reduce_scatter(s);
    s->count = MOST;
    allreduce(s);
    begin(s, RG_BF16, RG_AVG);
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
