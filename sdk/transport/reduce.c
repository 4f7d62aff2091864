/* One loop per (type, op), left to the compiler's vectoriser: this file is
 * compiled with -O3, and the loops are cloned for AVX2. Elements are read
 * through unaligned types, because a peer's offset is only known to lie inside
 * its segment. */
#include "sdk/transport/reduce.h"

#include <math.h>
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/least.h"
#include "sdk/base/unseen.h"
#include "sdk/transport/half.h"
#include "sdk/transport/names.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) &&                    \
    !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES /* resolvers run before a sanitizer's runtime is there */
#endif

#define LOOK(out, a, b, bytes)                                                 \
    (RG__READS((a), (bytes)), RG__READS((b), (bytes)),                         \
     RG__WRITES((out), (bytes)))

#define LOOSE(T) T __attribute__((aligned(1), may_alias))
typedef LOOSE(uint8_t) u8;
typedef LOOSE(int8_t) i8;
typedef LOOSE(int32_t) i32;
typedef LOOSE(uint32_t) u32;
typedef LOOSE(int64_t) i64;
typedef LOOSE(uint64_t) u64;
typedef LOOSE(float) f32;
typedef LOOSE(double) f64;

/* ------------------------------------------------------------------- loops */

#define ADD(x, y)   ((x) + (y))
#define TIMES(x, y) ((x) * (y))
/* A NaN wins, on whichever side it is. */
#define MINIMUM(x, y) (((y) < (x)) | ((y) != (y)) ? (y) : (x))
#define MAXIMUM(x, y) (((x) < (y)) | ((y) != (y)) ? (y) : (x))
#define L_AND(x, y)   (((x) != 0) & ((y) != 0))
#define L_OR(x, y)    (((x) != 0) | ((y) != 0))
#define L_XOR(x, y)   (((x) != 0) ^ ((y) != 0))
#define B_AND(x, y)   ((x) & (y))
#define B_OR(x, y)    ((x) | (y))
#define B_XOR(x, y)   ((x) ^ (y))

#define LOOP(name, T, EXPR)                                                    \
    CLONES RG__UNSEEN static void name(void *out, const void *a,               \
                                       const void *b, size_t n)                \
    {                                                                          \
        T *o = out;                                                            \
        const T *x = a, *y = b;                                                \
        LOOK(out, a, b, n * sizeof(T));                                        \
        _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) o[i] =             \
            (T)EXPR(x[i], y[i]);                                               \
    }

/* U adds and multiplies: unsigned, so that integers wrap. 8-bit integers are
 * promoted, and can't overflow before they are cut. */
#define ARITHMETIC(T, U)                                                       \
    LOOP(add_##T, U, ADD)                                                      \
    LOOP(times_##T, U, TIMES)                                                  \
    LOOP(min_##T, T, MINIMUM)                                                  \
    LOOP(max_##T, T, MAXIMUM)

#define BITS(U)                                                                \
    LOOP(land_##U, U, L_AND)                                                   \
    LOOP(lor_##U, U, L_OR)                                                     \
    LOOP(lxor_##U, U, L_XOR)                                                   \
    LOOP(band_##U, U, B_AND)                                                   \
    LOOP(bor_##U, U, B_OR)                                                     \
    LOOP(bxor_##U, U, B_XOR)

ARITHMETIC(u8, u8)
ARITHMETIC(i8, i8)
ARITHMETIC(i32, u32)
ARITHMETIC(u32, u32)
ARITHMETIC(i64, u64)
ARITHMETIC(u64, u64)
ARITHMETIC(f32, f32)
ARITHMETIC(f64, f64)
BITS(u8)
BITS(u32)
BITS(u64)

/* Pairs, packed like rg_f64_i32 and its siblings, padding included. */
#define PAIR(name, V, I, ...)                                                  \
    typedef struct __attribute__((packed, may_alias)) name {                   \
        V value;                                                               \
        I index;                                                               \
        __VA_ARGS__                                                            \
    } name

PAIR(f32_i32, float, int32_t, );
PAIR(f64_i32, double, int32_t, int32_t unused;);
PAIR(i32_i32, int32_t, int32_t, );
PAIR(i64_i32, int64_t, int32_t, int32_t unused;);
PAIR(f32_f32, float, float, );
PAIR(f64_f64, double, double, );

#define NEVER(v)   0
#define LESS(v, w) ((v) < (w))
#define MORE(v, w) ((v) > (w))

/* NaN first, then by value, then by index: a total order but for pairs whose
 * parts are equal, so the result does not depend on the order of adding. */
#define PAIR_LOOP(name, P, IS_NAN, BEFORE)                                     \
    RG__UNSEEN static void name(void *out, const void *a, const void *b,       \
                                size_t n)                                      \
    {                                                                          \
        P *o = out;                                                            \
        const P *x = a, *y = b;                                                \
        LOOK(out, a, b, n * sizeof(P));                                        \
        for (size_t i = 0; i < n; i++) {                                       \
            const bool nan_x = IS_NAN(x[i].value), nan_y = IS_NAN(y[i].value); \
            const bool is_y = nan_x != nan_y                   ? nan_y         \
                              : BEFORE(y[i].value, x[i].value) ? true          \
                              : BEFORE(x[i].value, y[i].value)                 \
                                  ? false                                      \
                                  : y[i].index < x[i].index;                   \
            o[i] = is_y ? y[i] : x[i];                                         \
        }                                                                      \
    }

#define PAIR_LOOPS(P, IS_NAN)                                                  \
    PAIR_LOOP(minloc_##P, P, IS_NAN, LESS)                                     \
    PAIR_LOOP(maxloc_##P, P, IS_NAN, MORE)

PAIR_LOOPS(f32_i32, isnan)
PAIR_LOOPS(f64_i32, isnan)
PAIR_LOOPS(i32_i32, NEVER)
PAIR_LOOPS(i64_i32, NEVER)
PAIR_LOOPS(f32_f32, isnan)
PAIR_LOOPS(f64_f64, isnan)

typedef void (*loop_fn)(void *out, const void *a, const void *b, size_t n);

#define OF_FLOAT(T)                                                            \
    {                                                                          \
        add_##T, add_##T, min_##T, max_##T, times_##T                          \
    }
#define OF_INTEGER(T, U)                                                       \
    {                                                                          \
        add_##T, add_##T, min_##T, max_##T, times_##T, land_##U, lor_##U,      \
            lxor_##U, band_##U, bor_##U, bxor_##U                              \
    }

#define OF_PAIR(P)                                                             \
    {                                                                          \
        [RG_MINLOC] = minloc_##P, [RG_MAXLOC] = maxloc_##P                     \
    }

static const loop_fn loops[][RG_MAXLOC + 1] = {
    [RG_U8] = OF_INTEGER(u8, u8),
    [RG_I8] = OF_INTEGER(i8, u8),
    [RG_I32] = OF_INTEGER(i32, u32),
    [RG_U32] = OF_INTEGER(u32, u32),
    [RG_I64] = OF_INTEGER(i64, u64),
    [RG_U64] = OF_INTEGER(u64, u64),
    [RG_F32] = OF_FLOAT(f32),
    [RG_F64] = OF_FLOAT(f64),
    [RG_BOOL] = {[RG_MIN] = land_u8,
                 [RG_MAX] = lor_u8,
                 [RG_LAND] = land_u8,
                 [RG_LOR] = lor_u8,
                 [RG_LXOR] = lxor_u8,
                 [RG_BAND] = land_u8,
                 [RG_BOR] = lor_u8,
                 [RG_BXOR] = lxor_u8},
    [RG_F32_I32] = OF_PAIR(f32_i32),
    [RG_F64_I32] = OF_PAIR(f64_i32),
    [RG_I32_I32] = OF_PAIR(i32_i32),
    [RG_I64_I32] = OF_PAIR(i64_i32),
    [RG_F32_F32] = OF_PAIR(f32_f32),
    [RG_F64_F64] = OF_PAIR(f64_f64)};

_Static_assert(RG_SUM == 0 && RG_AVG == 1 && RG_MIN == 2 && RG_MAX == 3 &&
                   RG_PROD == 4 && RG_LAND == 5 && RG_BXOR == 10,
               "the columns of loops");

/* ----------------------------------------------------------------- scaling */

/* A value beyond the type's range becomes the nearest one; NaN becomes 0. */
#define TO_INTEGER(T, LOW, ABOVE, HIGH)                                        \
    static T to_##T(double v)                                                  \
    {                                                                          \
        if (v >= (ABOVE))                                                      \
            return (HIGH);                                                     \
        return v > (LOW)-1.0 ? (T)v : v <= (LOW) ? (T)(LOW) : 0;               \
    }

TO_INTEGER(uint8_t, 0.0, 256.0, UINT8_MAX)
TO_INTEGER(int8_t, -128.0, 128.0, INT8_MAX)
TO_INTEGER(int32_t, -2147483648.0, 2147483648.0, INT32_MAX)
TO_INTEGER(uint32_t, 0.0, 4294967296.0, UINT32_MAX)
TO_INTEGER(uint64_t, 0.0, 18446744073709551616.0, UINT64_MAX)

static int64_t to_int64_t(double v)
{
    if (v >= 9223372036854775808.0)
        return INT64_MAX;
    if (v <= -9223372036854775808.0)
        return INT64_MIN;
    return isnan(v) ? 0 : (int64_t)v;
}

/* X(type, T, W, TO): quotients are computed in W, TO makes a T of a double. */
#define NUMBERS(X)                                                             \
    X(RG_U8, u8, int, to_uint8_t)                                              \
    X(RG_I8, i8, int, to_int8_t)                                               \
    X(RG_I32, i32, int64_t, to_int32_t)                                        \
    X(RG_U32, u32, uint64_t, to_uint32_t)                                      \
    X(RG_I64, i64, int64_t, to_int64_t)                                        \
    X(RG_U64, u64, uint64_t, to_uint64_t)                                      \
    X(RG_F32, f32, float, (float))                                             \
    X(RG_F64, f64, double, (double))

#define SCALE(type, T, W, TO)                                                  \
    case type:                                                                 \
        for (size_t i = 0; i < count; i++)                                     \
            ((T *)out)[i] = TO((double)((const T *)in)[i] * by);               \
        break;

/* out may be in. */
static void scale(rg_type type, void *out, const void *in, size_t count,
                  double by)
{
    switch (type) {
        NUMBERS(SCALE)
    default: /* halves are widened first; other types are not scaled */
        break;
    }
}

#define DIVIDE(type, T, W, TO)                                                 \
    case type:                                                                 \
        for (size_t i = 0; i < count; i++)                                     \
            ((T *)data)[i] = (T)((W)((T *)data)[i] / (W)n);                    \
        break;

static void divide(rg_type type, void *data, size_t count, int n)
{
    switch (type) {
        NUMBERS(DIVIDE)
    default:
        break;
    }
}

#define HOLD_LEAST 0x1p-32f /* no sum of halves needs a smaller factor */

static bool is_half(rg_type type)
{
    return type == RG_F16 || type == RG_BF16;
}

static bool scales(double by, rg_type type)
{
    return by != 0 && by != 1 && type < RG_BOOL;
}

bool rg__is_finished_by(const rg__coll *o)
{
    return o->op == RG_AVG || scales(o->postscale, o->type);
}

/* The factor that scales parts of a sum of n members down, so that none is
 * larger than the result. A power of two costs no bits but the lowest. */
float rg__held_down(const rg__coll *o, int n)
{
    double by = o->op == RG_AVG ? 1.0 / n : 1;
    float hold = 1;
    if (o->type != RG_F16 || (o->op != RG_SUM && o->op != RG_AVG))
        return hold;
    if (scales(o->postscale, o->type))
        by *= fabs(o->postscale);
    while ((double)hold > by && hold > HOLD_LEAST)
        hold /= 2;
    return hold;
}

/* Finish elements in the type in which they are computed. */
static void finish_wide(const rg__coll *o, rg_type type, void *data,
                        size_t count, int n)
{
    if (o->op == RG_AVG)
        divide(type, data, count, n);
    if (scales(o->postscale, type))
        scale(type, data, data, count, o->postscale);
}

/* ------------------------------------------------------------- in the whole */

#define BLOCK 512 /* elements */

/* A block of elements in the type that they are computed in. */
typedef union block {
    float f[BLOCK];
    char bytes[8 * BLOCK];
} block;

static void widen(const rg__coll *o, block *to, const void *in, size_t count)
{
    const rg_type wide = is_half(o->type) ? RG_F32 : o->type;
    if (is_half(o->type))
        rg__half_widen(o->type, to->f, in, count);
    if (scales(o->prescale, o->type))
        scale(wide, to, is_half(o->type) ? to : in, count, o->prescale);
    else if (!is_half(o->type))
        memcpy(to, in, count * rg_type_size(o->type));
}

static void narrow(rg_type type, void *out, const block *in, size_t count)
{
    if (is_half(type))
        rg__half_narrow(type, out, in->f, count);
    else
        memcpy(out, in, count * rg_type_size(type));
}

static void combine_block(const rg__coll *o, char *out, const void *const *src,
                          int n, size_t at, size_t count, int of)
{
    const rg_type wide = is_half(o->type) ? RG_F32 : o->type;
    block sum, next;
    widen(o, &sum, (const char *)src[0] + at, count);
    for (int m = 1; m < n; m++) {
        widen(o, &next, (const char *)src[m] + at, count);
        loops[wide][o->op](&sum, &sum, &next, count);
    }
    if (of > 0)
        finish_wide(o, wide, &sum, count, of);
    else if (of < 0 && rg__held_down(o, -of) < 1)
        scale(wide, &sum, &sum, count, (double)rg__held_down(o, -of));
    narrow(o->type, out + at, &sum, count);
}

/* Is it a sum of halves with no scale, but perhaps a division? */
static bool is_plain_sum(const rg__coll *o, int of)
{
    return is_half(o->type) && (o->op == RG_SUM || o->op == RG_AVG) &&
           !scales(o->prescale, o->type) &&
           (of <= 0 || !scales(o->postscale, o->type)) &&
           rg__half_sums_at_once();
}

static void sum_halves(const rg__coll *o, void *out, const void *const *src,
                       int n, size_t count, int of)
{
    const rg__half_sum s = {.type = o->type,
                            .times = of < 0 ? rg__held_down(o, -of) : 1,
                            .over = of > 0 && o->op == RG_AVG ? (float)of : 1};
    rg__half_add_up(&s, out, src, n, count);
}

/* One source is its own result, but logical ops turn it into 0 or 1. */
static void take_one(const rg__coll *o, void *out, const void *in, size_t count)
{
    const bool is_logical =
        o->type == RG_BOOL || (o->op >= RG_LAND && o->op <= RG_LXOR);
    if (is_logical)
        loops[o->type][RG_LAND](out, in, in, count);
    else if (out != in)
        rg__copy(out, in, count * rg_type_size(o->type));
}

void rg__combine(const rg__coll *o, void *out, const void *const *src, int n,
                 size_t count, int of)
{
    const size_t element = rg_type_size(o->type);
    const bool is_apart =
        scales(o->prescale, o->type) ||
        (is_half(o->type) && (n > 1 || (of != 0 && rg__is_finished_by(o))));
    if (is_apart && is_plain_sum(o, of)) {
        sum_halves(o, out, src, n, count, of);
        return;
    }
    if (is_apart) {
        for (size_t i = 0; i < count; i += BLOCK)
            combine_block(o, out, src, n, i * element,
                          rg__least(count - i, BLOCK), of);
        return;
    }
    if (n == 1)
        take_one(o, out, src[0], count);
    else
        loops[o->type][o->op](out, src[0], src[1], count);
    for (int m = 2; m < n; m++)
        loops[o->type][o->op](out, out, src[m], count);
    if (of > 0)
        finish_wide(o, o->type, out, count, of);
}

void rg__reduce(rg_type type, rg_op op, void *out, const void *a, const void *b,
                size_t count)
{
    if (!is_half(type)) {
        loops[type][op](out, a, b, count);
        return;
    }
    const rg__coll o = {.type = type, .op = op};
    const void *const src[2] = {a, b};
    rg__combine(&o, out, src, 2, count, 0);
}

void rg__finish(const rg__coll *o, void *data, size_t count, int n)
{
    if (!rg__is_finished_by(o))
        return;
    if (!is_half(o->type)) {
        finish_wide(o, o->type, data, count, n);
        return;
    }
    for (size_t i = 0; i < count; i += BLOCK) {
        const size_t now = rg__least(count - i, BLOCK);
        char *at = (char *)data + i * rg_type_size(o->type);
        block wide;
        rg__half_widen(o->type, wide.f, at, now);
        scale(RG_F32, &wide, &wide, now, 1 / (double)rg__held_down(o, n));
        finish_wide(o, RG_F32, &wide, now, n);
        narrow(o->type, at, &wide, now);
    }
}

/* --------------------------------------------------------- neutral elements */

/* The neutral element, of 16 bytes at most. */
static void neutral_element(rg_type type, rg_op op, void *to);

/* A pair whose value and index come after all others. */
static void neutral_pair(rg_type type, rg_op op, void *to)
{
    static const struct {
        rg_type value, index;
    } of[] = {[RG_F32_I32] = {RG_F32, RG_I32}, [RG_F64_I32] = {RG_F64, RG_I32},
              [RG_I32_I32] = {RG_I32, RG_I32}, [RG_I64_I32] = {RG_I64, RG_I32},
              [RG_F32_F32] = {RG_F32, RG_F32}, [RG_F64_F64] = {RG_F64, RG_F64}};
    memset(to, 0, rg_type_size(type));
    neutral_element(of[type].value, op == RG_MINLOC ? RG_MIN : RG_MAX, to);
    neutral_element(of[type].index, RG_MIN,
                    (char *)to + rg_type_size(of[type].value));
}

static void put_float(rg_type type, void *to, float v)
{
    if (type == RG_F32)
        memcpy(to, &v, sizeof v);
    else if (type == RG_F64)
        memcpy(to, &(double){v}, sizeof(double));
    else
        rg__half_narrow(type, to, &v, 1);
}

static void put_end(rg_type type, unsigned char *to, bool is_least)
{
    const bool is_signed = type == RG_I8 || type == RG_I32 || type == RG_I64;
    const size_t bytes = rg_type_size(type);
    if (type == RG_BOOL) {
        to[0] = !is_least;
        return;
    }
    memset(to, is_least ? 0 : 0xff, bytes);
    if (is_signed) /* the top byte, on a little-endian machine */
        to[bytes - 1] = is_least ? 0x80 : 0x7f;
}

static void neutral_element(rg_type type, rg_op op, void *to)
{
    const bool is_end = op == RG_MIN || op == RG_MAX, is_max = op == RG_MAX;
    const bool is_one =
        op == RG_PROD || op == RG_LAND || (op == RG_BAND && type == RG_BOOL);
    if (rg__type_is_pair(type)) {
        neutral_pair(type, op, to);
        return;
    }
    memset(to, op == RG_BAND && type != RG_BOOL ? 0xff : 0, rg_type_size(type));
    if (rg__type_is_float(type) && (is_end || op == RG_PROD))
        put_float(type, to, !is_end ? 1 : is_max ? -INFINITY : INFINITY);
    else if (is_end)
        put_end(type, to, is_max);
    else if (is_one)
        *(unsigned char *)to = 1;
}

void rg__neutral(rg_type type, rg_op op, void *data, size_t count)
{
    const size_t bytes = rg_type_size(type);
    const size_t first = count < BLOCK ? count : BLOCK;
    char *to = data, element[16];
    neutral_element(type, op, element);
    for (size_t i = 0; i < first; i++)
        memcpy(to + i * bytes, element, bytes);
    for (size_t i = first; i < count; i += BLOCK)
        memcpy(to + i * bytes, to,
               (count - i < BLOCK ? count - i : BLOCK) * bytes);
}
