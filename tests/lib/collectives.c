#include "tests/lib/collectives.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/transport/half.h"
#include "tests/check.h"

#define GUARD 0x5a

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

static bool is_half(rg_type type)
{
    return type == RG_F16 || type == RG_BF16;
}

static bool is_float(rg_type type)
{
    return is_half(type) || type == RG_F32 || type == RG_F64;
}

static bool is_signed(rg_type type)
{
    return is_float(type) || type == RG_I8 || type == RG_I32 || type == RG_I64;
}

static void put(rg_type type, void *at, uint64_t i, double v)
{
    const float f = (float)v;
    switch (type) {
    case RG_U8:
        ((uint8_t *)at)[i] = (uint8_t)v;
        break;
    case RG_I8:
        ((int8_t *)at)[i] = (int8_t)v;
        break;
    case RG_I32:
        ((int32_t *)at)[i] = (int32_t)v;
        break;
    case RG_U32:
        ((uint32_t *)at)[i] = (uint32_t)v;
        break;
    case RG_I64:
        ((int64_t *)at)[i] = (int64_t)v;
        break;
    case RG_U64:
        ((uint64_t *)at)[i] = (uint64_t)v;
        break;
    case RG_F32:
        ((float *)at)[i] = f;
        break;
    case RG_F64:
        ((double *)at)[i] = v;
        break;
    case RG_F16:
    case RG_BF16:
        rg__half_narrow_by(0, type, (uint16_t *)at + i, &f, 1);
        break;
    case RG_BOOL:
        ((uint8_t *)at)[i] = v != 0;
        break;
    }
}

/* What a rank contributes: so small that every sum and product is exact in
 * every type. */
static double value(rg_type type, rg_op op, int r, uint64_t i)
{
    const uint64_t rank = (uint64_t)r;
    const double low = is_signed(type) ? -3 : 0;
    if (op == RG_PROD)
        return ((i + rank) % 3 == 0 ? 2 : 1) *
               (is_signed(type) && (i + rank) % 5 == 0 ? -1 : 1);
    if (type == RG_BOOL || (op >= RG_LAND && op <= RG_LXOR))
        return (double)((i * 5 + rank * 3 + i / 7) % 4);
    if (op >= RG_BAND)
        return (double)((i * 37 + rank * 101) & 0x7f);
    return (double)((i * 7 + rank * 13) % 8) + low;
}

static double combine(rg_type type, rg_op op, double a, double b)
{
    const uint64_t x = (uint64_t)a, y = (uint64_t)b;
    const bool p = a != 0, q = b != 0;
    if (type == RG_BOOL)
        return op == RG_MIN || op == RG_LAND || op == RG_BAND ? p && q
               : op == RG_MAX || op == RG_LOR || op == RG_BOR ? p || q
                                                              : p != q;
    switch (op) {
    case RG_SUM:
    case RG_AVG:
        return a + b;
    case RG_PROD:
        return a * b;
    case RG_MIN:
        return a < b ? a : b;
    case RG_MAX:
        return a > b ? a : b;
    case RG_LAND:
        return p && q;
    case RG_LOR:
        return p || q;
    case RG_LXOR:
        return p != q;
    case RG_BAND:
        return (double)(x & y);
    case RG_BOR:
        return (double)(x | y);
    case RG_BXOR:
        return (double)(x ^ y);
    }
    return 0;
}

static double scaled(rg_type type, double v, double by)
{
    if (by == 0 || type == RG_BOOL)
        return v;
    return is_float(type) ? v * by : trunc(v * by);
}

/* The result at i for n ranks. */
static double expected(rg_type type, rg_op op, int n, uint64_t i,
                       const rg_op_params *p)
{
    double all = scaled(type, value(type, op, 0, i), p->prescale);
    if (n == 1 && ((op >= RG_LAND && op <= RG_LXOR) || type == RG_BOOL))
        all = all != 0;
    for (int r = 1; r < n; r++)
        all = combine(type, op, all,
                      scaled(type, value(type, op, r, i), p->prescale));
    if (op == RG_AVG)
        all = type == RG_F64   ? all / n
              : is_float(type) ? (double)((float)all / (float)n)
                               : trunc(all / n);
    return scaled(type, all, p->postscale);
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
} test;

static size_t element(const test *t)
{
    return rg_type_size(t->type);
}

static void fill(const test *t, char *at, uint64_t count, uint64_t first)
{
    for (uint64_t i = 0; i < count; i++)
        put(t->type, at, i, value(t->type, t->op, t->rank, first + i));
}

static void check_result(const test *t, const char *what, const char *at,
                         uint64_t count, uint64_t first)
{
    const uint64_t stride = count > 3000 ? 61 : 1;
    char want[8];
    for (uint64_t i = 0; i < count; i += stride) {
        put(t->type, want, 0,
            expected(t->type, t->op, t->n, first + i, &t->params));
        if (memcmp(want, at + i * element(t), element(t)) != 0)
            CHECK_FAIL("%s, type %d op %d, rank %d of %d, scales %g %g, in "
                       "place %d: element %llu of %llu",
                       what, t->type, t->op, t->rank, t->n, t->params.prescale,
                       t->params.postscale, t->in_place, (unsigned long long)i,
                       (unsigned long long)count);
    }
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
    fill(t, send, t->count, 0);
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
    fill(t, send, t->count, 0);
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
    fill(t, t->m.send, t->count * n, 0);
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
    uint64_t counts[16], first = 0, all = 0;
    for (int r = 0; r < t->n; r++) {
        counts[r] = t->n > 2 && r == 1 ? 0 : t->count - (t->count > 0 && r > 0);
        first += r < t->rank ? counts[r] : 0;
        all += counts[r];
    }
    char *own = t->m.send + first * element(t);
    char *recv = t->in_place ? own : t->m.recv;
    char *end = t->m.recv + counts[t->rank] * element(t);
    guard(end);
    fill(t, t->m.send, all, 0);
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

void collectives_reduce(rg_set *set, collectives_memory m, size_t most)
{
    test t = begin(set, m);
    int turn = 0;
    for (int k = 0; k < TYPES; k++)
        for (int op = RG_SUM; op <= RG_BXOR; op++)
            for (int s = 0; s < SIZES; s++) {
                t.type = types[k];
                t.op = (rg_op)op;
                t.count = sizes[s] / element(&t);
                const bool is_large = sizes[s] > 10000;
                if (!rg_op_has(t.op, t.type) || sizes[s] > most ||
                    (is_large && (k + s) % 11 != op))
                    continue;
                t.params.prescale = t.params.postscale = 0;
                reduce_all_kinds(&t, turn++);
                t.params.prescale = t.type == RG_BOOL || op > RG_PROD ? 0 : 0.5;
                t.params.postscale = op > RG_PROD ? 0 : 2;
                if (turn % 3 == 0 && op != RG_PROD)
                    reduce_all_kinds(&t, turn);
            }
}

/* -------------------------------------------------------------- moving data */

/* Byte i of what `from` has for `to`. */
static char byte_of(int from, int to, uint64_t i)
{
    return (char)(from * 31 + to * 7 + 1 + (int)(i % 101));
}

static void write_part(char *at, int from, int to, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        at[i] = byte_of(from, to, i);
}

static void check_part(const char *what, const test *t, const char *at,
                       int from, int to, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != byte_of(from, to, i))
            CHECK_FAIL("%s of %llu elements, type %d, in place %d: byte %llu "
                       "of %llu from rank %d is wrong on rank %d of %d",
                       what, (unsigned long long)t->count, t->type, t->in_place,
                       (unsigned long long)i, (unsigned long long)bytes, from,
                       to, t->n);
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
    uint64_t counts[16], places[16];
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
    uint64_t counts[16], places[16];
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
    uint64_t counts[16], places[16];
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
    uint64_t out[16], in[16], out_at[16], in_at[16];
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
    uint64_t counts[16];
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
