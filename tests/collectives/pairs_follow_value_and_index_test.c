/* MINLOC and MAXLOC of pairs give the extreme value and, among equal ones, the
 * lowest index; a value that is NaN comes first; the padding of a pair is
 * nobody's. A rank that has joined adds nothing. Pairs have no other op, no
 * scale, and no other type has theirs.
 *
 * Covers: transport/reduce.c transport/type.c call.c */
#include <math.h>

#include "tests/lib/world.h"

#define MOST 40000

static const uint64_t counts[] = {1, 5, 600, 5000, MOST};

typedef struct pair {
    double value, index;
} pair;

static const struct {
    rg_type type;
    bool has_nan;
} types[] = {{RG_F32_I32, true},  {RG_F64_I32, true}, {RG_I32_I32, false},
             {RG_I64_I32, false}, {RG_F32_F32, true}, {RG_F64_F64, true}};

#define EACH_TYPE(X)                                                           \
    X(RG_F32_I32, rg_f32_i32)                                                  \
    X(RG_F64_I32, rg_f64_i32)                                                  \
    X(RG_I32_I32, rg_i32_i32)                                                  \
    X(RG_I64_I32, rg_i64_i32)                                                  \
    X(RG_F32_F32, rg_f32_f32)                                                  \
    X(RG_F64_F64, rg_f64_f64)

/* C converts to the type of each member. */
static void put(rg_type type, void *data, uint64_t i, pair p)
{
#define X(id, T)                                                               \
    if (type == id) {                                                          \
        T *at = (T *)data + i;                                                 \
        memset(at, 0x55, sizeof *at);                                          \
        at->value = (__typeof__(at->value))p.value;                            \
        at->index = (__typeof__(at->index))p.index;                            \
    }
    EACH_TYPE(X)
#undef X
}

static pair get(rg_type type, const void *data, uint64_t i)
{
    pair p = {0};
#define X(id, T)                                                               \
    if (type == id) {                                                          \
        const T *at = (const T *)data + i;                                     \
        p = (pair){(double)at->value, (double)at->index};                      \
    }
    EACH_TYPE(X)
#undef X
    return p;
}

/* Many equal values; a NaN here and there, also on two ranks. */
static pair given(uint64_t i, int rank, bool has_nan)
{
    const uint64_t r = (uint64_t)rank;
    const pair p = {(double)((i * 7 + r * 5) % 4) - 2,
                    (double)((i + r * 3) % 5)};
    const bool is_nan = has_nan && i % 11 == 3 && (i + r) % 2 == 0;
    return is_nan ? (pair){(double)NAN, p.index} : p;
}

static bool comes_before(rg_op op, pair a, pair b)
{
    if (isnan(a.value) || isnan(b.value))
        return isnan(a.value) && (!isnan(b.value) || a.index < b.index);
    if (a.value < b.value || b.value < a.value)
        return op == RG_MINLOC ? a.value < b.value : b.value < a.value;
    return a.index < b.index;
}

static pair wanted(uint64_t i, rg_op op, int n, bool has_nan)
{
    pair best = given(i, 0, has_nan);
    for (int r = 1; r < n; r++)
        if (comes_before(op, given(i, r, has_nan), best))
            best = given(i, r, has_nan);
    return best;
}

static void check(rg_type type, const void *data, uint64_t i, pair want)
{
    const pair is = get(type, data, i);
    const bool is_value = isnan(want.value) ? isnan(is.value)
                                            : !(is.value < want.value) &&
                                                  !(want.value < is.value);
    if (!is_value || is.index < want.index || want.index < is.index)
        CHECK_FAIL("type %d, element %llu: (%g, %g), not (%g, %g)", (int)type,
                   (unsigned long long)i, is.value, is.index, want.value,
                   want.index);
}

static void reduce(world *w, int t, rg_op op, uint64_t count, char *send,
                   char *recv)
{
    const rg_type type = types[t].type;
    const bool has_nan = types[t].has_nan;
    const int n = w->n, me = w->index;
    rg_set *set = rg_world(w->ctx);
    for (uint64_t i = 0; i < count; i++)
        put(type, send, i, given(i, me, has_nan));
    CHECK_OK(rg_allreduce(set, send, recv, count, type, op));
    for (uint64_t i = 0; i < count; i++)
        check(type, recv, i, wanted(i, op, n, has_nan));
    const uint64_t each = count / (uint64_t)n, first = each * (uint64_t)me;
    CHECK_OK(rg_reduce_scatter(set, send, recv, each, type, op));
    for (uint64_t i = 0; i < each; i++)
        check(type, recv, i, wanted(first + i, op, n, has_nan));
    CHECK_OK(rg_reduce(set, send, send, count, type, op, n - 1));
    for (uint64_t i = 0; i < count && me == n - 1; i++)
        check(type, send, i, wanted(i, op, n, has_nan));
}

static void be_refused(world *w)
{
    rg_set *set = rg_world(w->ctx);
    const rg_op_params scaled = {.size = sizeof scaled, .postscale = 2};
    rg_f64_i32 p = {1, 1};
    rg_req *req = NULL;
    CHECK_STATUS(rg_allreduce(set, &p, &p, 1, RG_F64_I32, RG_MIN),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_allreduce(set, &p, &p, 1, RG_F64, RG_MINLOC),
                 RG_ERR_INVALID);
    CHECK_STATUS(rg_allreduce_start(set, &p, &p, 1, RG_F64_I32, RG_MAXLOC,
                                    &scaled, &req),
                 RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "pairs take no scale"));
}

/* The last rank has joined: what it adds loses against all. */
static void join(world *w)
{
    rg_set *set = rg_world(w->ctx);
    int last = -1;
    for (size_t t = 0; t < 6 && w->index < w->n - 1; t++) {
        static rg_f64_f64 room[600];
        const bool is_whole = !types[t].has_nan;
        const pair worst = {is_whole ? INT32_MAX : (double)INFINITY, 7};
        for (uint64_t i = 0; i < 600; i++)
            put(types[t].type, room, i, worst);
        CHECK_OK(rg_allreduce(set, room, room, 600, types[t].type, RG_MINLOC));
        check(types[t].type, room, 599, worst);
        const pair least = {is_whole ? INT32_MIN : -(double)INFINITY, 7};
        put(types[t].type, room, 0, least);
        CHECK_OK(rg_allreduce(set, room, room, 1, types[t].type, RG_MAXLOC));
        check(types[t].type, room, 0, least);
    }
    CHECK_OK(rg_join(set, &last));
}

static void all(world *w, void *arg)
{
    (void)arg;
    char *own = malloc(2 * MOST * sizeof(pair));
    CHECK(own != NULL);
    for (int t = 0; t < 6; t++)
        for (int c = 0; c < 5; c++) {
            char *send = c % 2 ? w->alloc : own;
            char *recv = send + MOST * sizeof(pair);
            reduce(w, t, RG_MINLOC, counts[c], send, recv);
            reduce(w, t, RG_MAXLOC, counts[c], send, recv);
        }
    be_refused(w);
    join(w);
    free(own);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        world_on(argv[i], all, NULL);
    return 0;
}
