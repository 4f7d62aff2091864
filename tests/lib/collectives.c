#include "tests/lib/collectives.h"

#include <stdbool.h>
#include <string.h>

#include "tests/check.h"
#include "tests/lib/dice.h"
#include "tests/lib/elements.h"

#define GUARD   0x5a
#define MEMBERS 16 /* at most */

static const rg_type types[] = {RG_U8,  RG_I8,   RG_I32, RG_U32, RG_I64, RG_U64,
                                RG_F16, RG_BF16, RG_F32, RG_F64, RG_BOOL};
#define TYPES ((int)(sizeof types / sizeof *types))

/* Bytes: nothing, one, odd; the line, the direct copy, a page, the small slot
 * and the staging slot with their neighbours; several turns of the latter. */
static const size_t sizes[] = {0,     1,      7,      80,     88,    2047,
                               2048,  4095,   4096,   4097,   8192,  8200,
                               70000, 262143, 262144, 262152, 600000};
#define SIZES ((int)(sizeof sizes / sizeof *sizes))

/* ---------------------------------------------------------------- elements */

/* Element i of what a rank contributes, so small that every sum and product is
 * exact in every type. */
static double value(rg_type type, rg_op op, int rank, uint64_t i)
{
    const uint64_t h = dice_seed((uint64_t)rank, i);
    const double sign = is_signed(type) && h / 256 % 4 == 0 ? -1 : 1;
    if (op == RG_PROD)
        return sign * (h % 3 == 0 ? 2 : 1);
    if (type == RG_BOOL || (op >= RG_LAND && op <= RG_LXOR))
        return (double)(h % 4);
    return op >= RG_BAND ? (double)(h % 128) : sign * (double)(1 + h % 7);
}

static pattern pattern_of_rank(rg_type type, rg_op op, int rank)
{
    double values[PATTERN_PERIOD];
    for (uint64_t i = 0; i < PATTERN_PERIOD; i++)
        values[i] = value(type, op, rank, i);
    return pattern_of(type, values);
}

/* Of n ranks. */
static pattern pattern_of_result(rg_type type, rg_op op, int n,
                                 const rg_op_params *p)
{
    double values[PATTERN_PERIOD], x[MEMBERS];
    char one[8];
    for (uint64_t i = 0; i < PATTERN_PERIOD; i++) {
        for (int r = 0; r < n; r++) {
            put(type, one, 0, value(type, op, r, i));
            x[r] = scaled(type, get(type, one, 0), p->prescale);
        }
        values[i] = scaled(type, computed(type, op, x, n), p->postscale);
    }
    return pattern_of(type, values);
}

/* --------------------------------------------------------------- reductions */

typedef struct test {
    rg_set *set;
    int n, rank;
    collectives_memory m;
    rg_type type;
    rg_op op;
    rg_op_params params;
    uint64_t count; /* of one rank's part */
    bool in_place;
    pattern given, result; /* of this rank, and of all with these params */
} test;

static size_t element(const test *t)
{
    return rg_type_size(t->type);
}

static void fill(const test *t, char *at, uint64_t count)
{
    pattern_write(&t->given, at, 0, count);
}

static void check_result(const test *t, const char *what, const char *at,
                         uint64_t count, uint64_t first)
{
    const uint64_t i = pattern_wrong(&t->result, at, first, count);
    if (i < count)
        CHECK_FAIL("%s of %s, %s, rank %d of %d, scales %g %g, in place %d: "
                   "element %llu of %llu is %g and not %g",
                   what, type_names[t->type], op_names[t->op], t->rank, t->n,
                   t->params.prescale, t->params.postscale, t->in_place,
                   (unsigned long long)i, (unsigned long long)count,
                   get(t->type, at, i),
                   get(t->type, t->result.at, (first + i) % PATTERN_PERIOD));
}

static void guard(char *end)
{
    memset(end, GUARD, 32);
}

static void check_guard(const char *what, const char *end)
{
    for (int i = 0; i < 32; i++)
        if (end[i] != GUARD)
            CHECK_FAIL("%s wrote byte %d behind the end", what, i);
}

/* What is sent, to be compared afterwards. */
typedef struct sent {
    const char *at;
    uint64_t bytes, print;
} sent;

static uint64_t print_of(const char *at, uint64_t bytes)
{
    uint64_t print = bytes, word = 0;
    for (uint64_t i = 0; i + 8 <= bytes; i += 8) {
        memcpy(&word, at + i, 8);
        print = (print ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        print ^= print >> 29;
    }
    for (uint64_t i = bytes / 8 * 8; i < bytes; i++)
        print = print * 31 + (unsigned char)at[i];
    return print;
}

static sent note_sent(const char *at, uint64_t bytes)
{
    return (sent){at, bytes, print_of(at, bytes)};
}

static void check_sent(const test *t, const char *what, sent s)
{
    if (!t->in_place && print_of(s.at, s.bytes) != s.print)
        CHECK_FAIL("%s of %llu elements, type %d, has changed what rank %d of "
                   "%d sends",
                   what, (unsigned long long)t->count, t->type, t->rank, t->n);
}

static void finish(rg_status st, rg_req *req)
{
    CHECK_OK(st);
    CHECK_OK(rg_wait(&req, -1));
}

static void allreduce(test *t)
{
    rg_req *req = NULL;
    char *send = t->in_place ? t->m.recv : t->m.send;
    char *end = t->m.recv + t->count * element(t);
    guard(end);
    fill(t, send, t->count);
    const sent sends = note_sent(send, t->count * element(t));
    const rg_status st = rg_allreduce_start(t->set, send, t->m.recv, t->count,
                                            t->type, t->op, &t->params, &req);
    finish(st, req);
    check_sent(t, "allreduce", sends);
    check_result(t, "allreduce", t->m.recv, t->count, 0);
    check_guard("allreduce", end);
}

static void reduce(test *t, int root)
{
    rg_req *req = NULL;
    const bool is_root = root == t->rank;
    char *send = t->in_place && is_root ? t->m.recv : t->m.send;
    char *end = is_root ? t->m.recv + t->count * element(t) : t->m.recv;
    guard(end);
    fill(t, send, t->count);
    const sent sends = note_sent(send, t->count * element(t));
    t->params.root = root;
    const rg_status st =
        rg_reduce_start(t->set, send, is_root ? t->m.recv : NULL, t->count,
                        t->type, t->op, &t->params, &req);
    finish(st, req);
    check_sent(t, "reduce", sends);
    if (is_root)
        check_result(t, "reduce", t->m.recv, t->count, 0);
    check_guard("reduce", end);
    t->params.root = 0;
}

static void reduce_scatter(test *t)
{
    rg_req *req = NULL;
    const uint64_t n = (uint64_t)t->n, first = (uint64_t)t->rank * t->count;
    char *own = t->m.send + first * element(t);
    char *recv = t->in_place ? own : t->m.recv;
    char *end = t->m.recv + t->count * element(t);
    guard(end);
    fill(t, t->m.send, t->count * n);
    const sent sends = note_sent(t->m.send, t->count * n * element(t));
    const rg_status st = rg_reduce_scatter_start(
        t->set, t->m.send, recv, t->count, t->type, t->op, &t->params, &req);
    finish(st, req);
    check_sent(t, "reduce_scatter", sends);
    check_result(t, "reduce_scatter", recv, t->count, first);
    check_guard("reduce_scatter", end);
}

/* The first (rows mod n) ranks get one more, and one gets nothing. */
static void reduce_scatterv(test *t)
{
    rg_req *req = NULL;
    uint64_t counts[MEMBERS], first = 0, all = 0;
    for (int r = 0; r < t->n; r++) {
        counts[r] = t->n > 2 && r == 1 ? 0 : t->count - (t->count > 0 && r > 0);
        first += r < t->rank ? counts[r] : 0;
        all += counts[r];
    }
    char *own = t->m.send + first * element(t);
    char *recv = t->in_place ? own : t->m.recv;
    char *end = t->m.recv + counts[t->rank] * element(t);
    guard(end);
    fill(t, t->m.send, all);
    const sent sends = note_sent(t->m.send, all * element(t));
    const rg_status st = rg_reduce_scatterv_start(
        t->set, t->m.send, recv, counts, t->type, t->op, &t->params, &req);
    finish(st, req);
    check_sent(t, "reduce_scatterv", sends);
    check_result(t, "reduce_scatterv", recv, counts[t->rank], first);
    check_guard("reduce_scatterv", end);
}

static void reduce_all_kinds(test *t, int turn)
{
    t->in_place = turn % 2 == 0;
    allreduce(t);
    reduce(t, turn % t->n);
    reduce_scatter(t);
    reduce_scatterv(t);
}

static test begin(rg_set *set, collectives_memory m)
{
    return (test){.set = set,
                  .n = rg_set_size(set),
                  .rank = rg_set_rank(set),
                  .m = m,
                  .params = {.size = sizeof(rg_op_params)}};
}

/* Every size that is due for the type and op; large ones for some. */
static void reduce_all_sizes(test *t, int k, size_t most, int *turn)
{
    const double pre = t->type == RG_BOOL || t->op > RG_PROD ? 0 : 0.5;
    const double post = t->op > RG_PROD ? 0 : 2;
    rg_op_params scales = {.prescale = pre, .postscale = post};
    const pattern plain = pattern_of_result(t->type, t->op, t->n, &t->params);
    const pattern other = pattern_of_result(t->type, t->op, t->n, &scales);
    t->given = pattern_of_rank(t->type, t->op, t->rank);
    for (int s = 0; s < SIZES; s++) {
        const bool is_large = sizes[s] > 10000;
        if (sizes[s] > most || (is_large && (k + s) % 11 != (int)t->op))
            continue;
        t->count = sizes[s] / element(t);
        t->result = plain;
        reduce_all_kinds(t, (*turn)++);
        if (*turn % 3 != 0 || t->op == RG_PROD)
            continue;
        t->params.prescale = pre;
        t->params.postscale = post;
        t->result = other;
        reduce_all_kinds(t, *turn);
        t->params.prescale = t->params.postscale = 0;
    }
}

void collectives_reduce(rg_set *set, collectives_memory m, size_t most)
{
    test t = begin(set, m);
    int turn = 0;
    for (int k = 0; k < TYPES; k++)
        for (int op = RG_SUM; op <= RG_BXOR; op++) {
            t.type = types[k];
            t.op = (rg_op)op;
            if (rg_op_has(t.op, t.type))
                reduce_all_sizes(&t, k, most, &turn);
        }
}

/* -------------------------------------------------------------- moving data */

/* What `from` has for `to`. */
static pattern pattern_between(int from, int to)
{
    return pattern_of_bytes((uint64_t)(from * MEMBERS + to));
}

static void write_part(char *at, int from, int to, uint64_t bytes)
{
    const pattern r = pattern_between(from, to);
    pattern_write(&r, at, 0, bytes);
}

static void check_part(const char *what, const test *t, const char *at,
                       int from, int to, uint64_t bytes)
{
    const pattern r = pattern_between(from, to);
    const uint64_t i = pattern_wrong(&r, at, 0, bytes);
    if (i < bytes)
        CHECK_FAIL("%s of %llu elements, type %s, in place %d: byte %llu of "
                   "%llu from rank %d is wrong on rank %d of %d",
                   what, (unsigned long long)t->count, type_names[t->type],
                   t->in_place, (unsigned long long)i,
                   (unsigned long long)bytes, from, t->rank, t->n);
}

static void broadcast(test *t, int root)
{
    const uint64_t bytes = t->count * element(t);
    memset(t->m.recv, 99, bytes);
    if (t->rank == root)
        write_part(t->m.recv, root, 0, bytes);
    guard(t->m.recv + bytes);
    CHECK_OK(rg_broadcast(t->set, t->m.recv, t->count, t->type, root));
    check_part("broadcast", t, t->m.recv, root, 0, bytes);
    check_guard("broadcast", t->m.recv + bytes);
}

static void allgather(test *t)
{
    const uint64_t bytes = t->count * element(t), all = bytes * (uint64_t)t->n;
    char *own = t->m.recv + bytes * (uint64_t)t->rank;
    char *send = t->in_place ? own : t->m.send;
    memset(t->m.recv, 99, all);
    write_part(send, t->rank, 0, bytes);
    guard(t->m.recv + all);
    const sent sends = note_sent(send, bytes);
    CHECK_OK(rg_allgather(t->set, send, t->m.recv, t->count, t->type));
    check_sent(t, "allgather", sends);
    for (int r = 0; r < t->n; r++)
        check_part("allgather", t, t->m.recv + bytes * (uint64_t)r, r, 0,
                   bytes);
    check_guard("allgather", t->m.recv + all);
}

static void gather(test *t, int root)
{
    const uint64_t bytes = t->count * element(t), all = bytes * (uint64_t)t->n;
    const bool is_root = t->rank == root;
    char *send =
        t->in_place && is_root ? t->m.recv + bytes * (uint64_t)root : t->m.send;
    memset(t->m.recv, 99, all);
    write_part(send, t->rank, root, bytes);
    guard(t->m.recv + all);
    const sent sends = note_sent(send, bytes);
    CHECK_OK(rg_gather(t->set, send, is_root ? t->m.recv : NULL, t->count,
                       t->type, root));
    check_sent(t, "gather", sends);
    for (int r = 0; r < t->n && is_root; r++)
        check_part("gather", t, t->m.recv + bytes * (uint64_t)r, r, root,
                   bytes);
    check_guard("gather", t->m.recv + all);
}

static void scatter(test *t, int root)
{
    const uint64_t bytes = t->count * element(t);
    const bool is_root = t->rank == root;
    char *recv =
        t->in_place && is_root ? t->m.send + bytes * (uint64_t)root : t->m.recv;
    for (int r = 0; r < t->n && is_root; r++)
        write_part(t->m.send + bytes * (uint64_t)r, root, r, bytes);
    guard(t->m.recv + bytes);
    const sent sends =
        note_sent(t->m.send, is_root ? bytes * (uint64_t)t->n : 0);
    CHECK_OK(rg_scatter(t->set, is_root ? t->m.send : NULL, recv, t->count,
                        t->type, root));
    check_sent(t, "scatter", sends);
    check_part("scatter", t, recv, root, t->rank, bytes);
    check_guard("scatter", t->m.recv + bytes);
}

static void alltoall(test *t)
{
    const uint64_t bytes = t->count * element(t), all = bytes * (uint64_t)t->n;
    char *send = t->in_place ? t->m.recv : t->m.send;
    for (int r = 0; r < t->n; r++)
        write_part(send + bytes * (uint64_t)r, t->rank, r, bytes);
    guard(t->m.recv + all);
    const sent sends = note_sent(send, all);
    CHECK_OK(rg_alltoall(t->set, send, t->m.recv, t->count, t->type));
    check_sent(t, "alltoall", sends);
    for (int r = 0; r < t->n; r++)
        check_part("alltoall", t, t->m.recv + bytes * (uint64_t)r, r, t->rank,
                   bytes);
    check_guard("alltoall", t->m.recv + all);
}

/* ----------------------------------------------------------- uneven counts */

/* Elements from one rank to another: mostly other than count, some 0. */
static uint64_t uneven(const test *t, int from, int to)
{
    const uint64_t k = (uint64_t)((from * 3 + to * 5) % 4);
    return k == 3 ? 0 : t->count - t->count * k / 7;
}

/* Parts lie in reverse, with a gap of one element between them. */
static void place(const test *t, const uint64_t *counts, uint64_t *places)
{
    uint64_t at = 0;
    for (int r = t->n - 1; r >= 0; r--) {
        places[r] = at;
        at += counts[r] + (t->count > 0);
    }
}

static void allgatherv(test *t)
{
    uint64_t counts[MEMBERS], places[MEMBERS];
    rg_req *req = NULL;
    for (int r = 0; r < t->n; r++)
        counts[r] = uneven(t, r, 0);
    place(t, counts, places);
    const uint64_t mine = counts[t->rank];
    char *own = t->m.recv + places[t->rank] * element(t);
    char *send = t->in_place ? own : t->m.send;
    write_part(send, t->rank, 0, mine * element(t));
    const sent sends = note_sent(send, mine * element(t));
    const rg_status st = rg_allgatherv_start(
        t->set, send, mine, t->m.recv, counts, places, t->type, NULL, &req);
    finish(st, req);
    check_sent(t, "allgatherv", sends);
    for (int r = 0; r < t->n; r++)
        check_part("allgatherv", t, t->m.recv + places[r] * element(t), r, 0,
                   counts[r] * element(t));
}

static void gatherv(test *t, int root)
{
    uint64_t counts[MEMBERS], places[MEMBERS];
    rg_op_params params = {.size = sizeof params, .root = root};
    rg_req *req = NULL;
    for (int r = 0; r < t->n; r++)
        counts[r] = uneven(t, r, root);
    place(t, counts, places);
    const bool is_root = t->rank == root;
    char *own = t->m.recv + places[t->rank] * element(t);
    char *send = t->in_place && is_root ? own : t->m.send;
    write_part(send, t->rank, root, counts[t->rank] * element(t));
    const sent sends = note_sent(send, counts[t->rank] * element(t));
    const rg_status st = rg_gatherv_start(t->set, send, counts[t->rank],
                                          t->m.recv, is_root ? counts : NULL,
                                          places, t->type, &params, &req);
    finish(st, req);
    check_sent(t, "gatherv", sends);
    for (int r = 0; r < t->n && is_root; r++)
        check_part("gatherv", t, t->m.recv + places[r] * element(t), r, root,
                   counts[r] * element(t));
}

static void scatterv(test *t, int root)
{
    uint64_t counts[MEMBERS], places[MEMBERS];
    rg_op_params params = {.size = sizeof params, .root = root};
    rg_req *req = NULL;
    for (int r = 0; r < t->n; r++)
        counts[r] = uneven(t, root, r);
    place(t, counts, places);
    const bool is_root = t->rank == root;
    const uint64_t mine = counts[t->rank];
    char *own = t->m.send + places[t->rank] * element(t);
    char *recv = t->in_place && is_root ? own : t->m.recv;
    for (int r = 0; r < t->n && is_root; r++)
        write_part(t->m.send + places[r] * element(t), root, r,
                   counts[r] * element(t));
    const rg_status st =
        rg_scatterv_start(t->set, t->m.send, is_root ? counts : NULL, places,
                          recv, mine, t->type, &params, &req);
    finish(st, req);
    check_part("scatterv", t, recv, root, t->rank, mine * element(t));
}

static void alltoallv(test *t)
{
    uint64_t out[MEMBERS], in[MEMBERS], out_at[MEMBERS], in_at[MEMBERS];
    rg_req *req = NULL;
    for (int r = 0; r < t->n; r++) {
        out[r] = uneven(t, t->rank, r);
        in[r] = uneven(t, r, t->rank);
    }
    place(t, out, out_at);
    place(t, in, in_at);
    for (int r = 0; r < t->n; r++)
        write_part(t->m.send + out_at[r] * element(t), t->rank, r,
                   out[r] * element(t));
    const rg_status st =
        rg_alltoallv_start(t->set, t->m.send, out, out_at, t->m.recv, in, in_at,
                           t->type, NULL, &req);
    finish(st, req);
    for (int r = 0; r < t->n; r++)
        check_part("alltoallv", t, t->m.recv + in_at[r] * element(t), r,
                   t->rank, in[r] * element(t));
}

static void alltoallv_in_place(test *t)
{
    uint64_t counts[MEMBERS];
    rg_req *req = NULL;
    uint64_t at = 0;
    for (int r = 0; r < t->n; r++)
        counts[r] = uneven(t, 0, (r + t->rank) % t->n);
    for (int r = 0; r < t->n; at += counts[r], r++)
        write_part(t->m.recv + at * element(t), t->rank, r,
                   counts[r] * element(t));
    const rg_status st =
        rg_alltoallv_start(t->set, t->m.recv, counts, NULL, t->m.recv, counts,
                           NULL, t->type, NULL, &req);
    finish(st, req);
    at = 0;
    for (int r = 0; r < t->n; at += counts[r], r++)
        check_part("alltoallv in place", t, t->m.recv + at * element(t), r,
                   t->rank, counts[r] * element(t));
}

static void move_all_kinds(test *t, int turn)
{
    const int root = turn % t->n;
    t->in_place = turn / 2 % 2 == 0;
    broadcast(t, root);
    allgather(t);
    gather(t, root);
    scatter(t, root);
    alltoall(t);
    allgatherv(t);
    gatherv(t, root);
    scatterv(t, root);
    alltoallv(t);
    alltoallv_in_place(t);
    CHECK_OK(rg_barrier(t->set));
}

void collectives_move(rg_set *set, collectives_memory m, size_t most)
{
    test t = begin(set, m);
    int turn = 0;
    for (int s = 0; s < SIZES; s++)
        for (int root = 0; root < (sizes[s] > 10000 ? 2 : t.n + 2); root++) {
            t.type = types[turn % TYPES];
            t.count = sizes[s] / element(&t);
            if (sizes[s] <= most)
                move_all_kinds(&t, turn);
            turn++;
        }
}
