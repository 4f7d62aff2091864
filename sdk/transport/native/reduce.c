/* One loop per (type, op), left to the compiler's vectoriser: this file is
 * compiled with -O3, and the loops that matter for training are cloned for
 * AVX2. Elements are read through unaligned types, because a peer's offset is
 * only known to lie inside its segment. */
#include "sdk/transport/native/reduce.h"

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) &&                    \
    !defined(__SANITIZE_ADDRESS__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES /* resolvers run before a sanitizer's runtime is there */
#endif

#define LOOSE(T) T __attribute__((aligned(1), may_alias))
typedef LOOSE(uint8_t) u8;
typedef LOOSE(int32_t) i32;
typedef LOOSE(uint32_t) w32;
typedef LOOSE(int64_t) i64;
typedef LOOSE(uint64_t) w64;
typedef LOOSE(float) f32;
typedef LOOSE(double) f64;

/* W is the type that adds: unsigned, so that integers wrap. */
#define ADD(x, y)     ((x) + (y))
#define MINIMUM(x, y) ((y) < (x) ? (y) : (x))
#define MAXIMUM(x, y) ((x) < (y) ? (y) : (x))

#define LOOP(name, W, EXPR)                                                    \
    CLONES static void name(void *out, const void *a, const void *b, size_t n) \
    {                                                                          \
        W *o = out;                                                            \
        const W *x = a, *y = b;                                                \
        _Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) o[i] =             \
            (W)EXPR(x[i], y[i]);                                               \
    }

LOOP(add_u8, u8, ADD)
LOOP(min_u8, u8, MINIMUM)
LOOP(max_u8, u8, MAXIMUM)
LOOP(add_i32, w32, ADD)
LOOP(min_i32, i32, MINIMUM)
LOOP(max_i32, i32, MAXIMUM)
LOOP(add_i64, w64, ADD)
LOOP(min_i64, i64, MINIMUM)
LOOP(max_i64, i64, MAXIMUM)
LOOP(add_f32, f32, ADD)
LOOP(min_f32, f32, MINIMUM)
LOOP(max_f32, f32, MAXIMUM)
LOOP(add_f64, f64, ADD)
LOOP(min_f64, f64, MINIMUM)
LOOP(max_f64, f64, MAXIMUM)

typedef void (*loop_fn)(void *out, const void *a, const void *b, size_t n);

static const loop_fn loops[][4] = {
    [RG_U8] = {add_u8, add_u8, min_u8, max_u8},
    [RG_I32] = {add_i32, add_i32, min_i32, max_i32},
    [RG_I64] = {add_i64, add_i64, min_i64, max_i64},
    [RG_F32] = {add_f32, add_f32, min_f32, max_f32},
    [RG_F64] = {add_f64, add_f64, min_f64, max_f64},
};

_Static_assert(RG_SUM == 0 && RG_AVG == 1 && RG_MIN == 2 && RG_MAX == 3,
               "the columns of loops");

void rg__reduce(rg_type type, rg_op op, void *out, const void *a, const void *b,
                size_t count)
{
    loops[type][op](out, a, b, count);
}

#define DIVIDE(T, W)                                                           \
    do {                                                                       \
        T *x = data;                                                           \
        for (size_t i = 0; i < count; i++)                                     \
            x[i] = (T)((W)x[i] / (W)n);                                        \
    } while (0)

void rg__divide(rg_type type, void *data, size_t count, int n)
{
    switch (type) {
    case RG_U8:
        DIVIDE(u8, int);
        break;
    case RG_I32:
        DIVIDE(i32, int64_t);
        break;
    case RG_I64:
        DIVIDE(i64, int64_t);
        break;
    case RG_F32:
        DIVIDE(f32, float);
        break;
    case RG_F64:
        DIVIDE(f64, double);
        break;
    default:
        break;
    }
}
