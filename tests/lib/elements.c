#include "tests/lib/elements.h"

#include <math.h>
#include <string.h>

#include "tests/lib/dice.h"

const char *const type_names[11] = {"u8",  "i32", "i64", "f32",  "f64", "i8",
                                    "u32", "u64", "f16", "bf16", "bool"};
const char *const op_names[11] = {"sum", "avg",  "min",  "max", "prod", "land",
                                  "lor", "lxor", "band", "bor", "bxor"};

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(bits >> 16);
}

static float of_bf16(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Finite values that F16 holds, or nearly holds. */
static uint16_t f16_of(float value)
{
    if (value == 0)
        return 0;
    int exponent = 0;
    const float fraction = frexpf(fabsf(value), &exponent); /* [0.5, 1) */
    long mantissa = lrintf(ldexpf(fraction, 11));           /* ties: to even */
    if (mantissa == 2048) {
        mantissa = 1024;
        exponent++;
    }
    return (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                      (mantissa - 1024));
}

static float of_f16(uint16_t half)
{
    if ((half & 0x7fff) == 0)
        return 0;
    const float value =
        ldexpf((float)(1024 + (half & 0x3ff)), (half >> 10 & 0x1f) - 25);
    return half & 0x8000 ? -value : value;
}

#define PUT(T, how)                                                            \
    do {                                                                       \
        const T x = (T)(how);                                                  \
        memcpy((char *)data + i * sizeof x, &x, sizeof x);                     \
        return;                                                                \
    } while (0)

void put(rg_type type, void *data, uint64_t i, double value)
{
    switch (type) {
    case RG_U8:
        PUT(uint8_t, (int64_t)value);
    case RG_BOOL:
        PUT(uint8_t, value != 0);
    case RG_I8:
        PUT(int8_t, (int64_t)value);
    case RG_I32:
        PUT(int32_t, (int64_t)value);
    case RG_U32:
        PUT(uint32_t, (int64_t)value);
    case RG_I64:
        PUT(int64_t, value);
    case RG_U64:
        PUT(uint64_t, value);
    case RG_F32:
        PUT(float, value);
    case RG_F64:
        PUT(double, value);
    case RG_F16:
        PUT(uint16_t, f16_of((float)value));
    case RG_BF16:
        PUT(uint16_t, bf16_of((float)value));
    default: /* pairs have tests of their own */
        return;
    }
}

#define GET(T, how)                                                            \
    do {                                                                       \
        T x;                                                                   \
        memcpy(&x, (const char *)data + i * sizeof x, sizeof x);               \
        return (double)(how);                                                  \
    } while (0)

double get(rg_type type, const void *data, uint64_t i)
{
    switch (type) {
    case RG_U8:
    case RG_BOOL:
        GET(uint8_t, x);
    case RG_I8:
        GET(int8_t, x);
    case RG_I32:
        GET(int32_t, x);
    case RG_U32:
        GET(uint32_t, x);
    case RG_I64:
        GET(int64_t, x);
    case RG_U64:
        GET(uint64_t, x);
    case RG_F32:
        GET(float, x);
    case RG_F64:
        GET(double, x);
    case RG_F16:
        GET(uint16_t, of_f16(x));
    case RG_BF16:
        GET(uint16_t, of_bf16(x));
    default:
        return 0;
    }
}

static double two(rg_op op, double a, double b)
{
    switch (op) {
    case RG_SUM:
    case RG_AVG:
        return a + b;
    case RG_PROD:
        return a * b;
    case RG_MIN:
        return b < a ? b : a;
    case RG_MAX:
        return a < b ? b : a;
    case RG_LAND:
        return a != 0 && b != 0;
    case RG_LOR:
        return a != 0 || b != 0;
    case RG_LXOR:
        return (a != 0) != (b != 0);
    case RG_BAND:
        return (double)((uint64_t)a & (uint64_t)b);
    case RG_BOR:
        return (double)((uint64_t)a | (uint64_t)b);
    case RG_BXOR:
        return (double)((uint64_t)a ^ (uint64_t)b);
    default:
        return 0;
    }
}

double computed(rg_type type, rg_op op, const double *x, int n)
{
    const bool is_logical = op == RG_LAND || op == RG_LOR || op == RG_LXOR;
    double result = is_logical ? x[0] != 0 : x[0];
    for (int m = 1; m < n; m++)
        result = two(op, result, x[m]);
    if (op == RG_AVG)
        result = is_float(type) ? result / n : trunc(result / n);
    return result;
}

bool is_float(rg_type type)
{
    return type == RG_F16 || type == RG_BF16 || type == RG_F32 ||
           type == RG_F64;
}

bool is_signed(rg_type type)
{
    return is_float(type) || type == RG_I8 || type == RG_I32 || type == RG_I64;
}

double scaled(rg_type type, double value, double by)
{
    if (by == 0)
        return value;
    return is_float(type) ? value * by : trunc(value * by);
}

/* ---------------------------------------------------------------- patterns */

pattern pattern_of(rg_type type, const double *values)
{
    pattern p = {.element = rg_type_size(type)};
    for (uint64_t i = 0; i < PATTERN_PERIOD; i++)
        put(type, p.at, i, values[i]);
    return p;
}

pattern pattern_of_bytes(uint64_t seed)
{
    pattern p = {.element = 1};
    for (uint64_t i = 0; i < PATTERN_PERIOD; i++)
        p.at[i] = (char)(dice_seed(seed, i) >> 8);
    return p;
}

/* Elements from `first` on until the pattern, or what is left of it, ends. */
static uint64_t run_of(uint64_t first, uint64_t left)
{
    const uint64_t run = PATTERN_PERIOD - first % PATTERN_PERIOD;
    return run < left ? run : left;
}

void pattern_write(const pattern *p, void *at, uint64_t first, uint64_t count)
{
    for (uint64_t i = 0, run = 0; i < count; i += run) {
        run = run_of(first + i, count - i);
        memcpy((char *)at + i * p->element,
               p->at + (first + i) % PATTERN_PERIOD * p->element,
               run * p->element);
    }
}

uint64_t pattern_wrong(const pattern *p, const void *at, uint64_t first,
                       uint64_t count)
{
    for (uint64_t i = 0, run = 0; i < count; i += run) {
        run = run_of(first + i, count - i);
        const char *got = (const char *)at + i * p->element;
        const char *want = p->at + (first + i) % PATTERN_PERIOD * p->element;
        if (memcmp(got, want, run * p->element) == 0)
            continue;
        while (memcmp(got, want, p->element) == 0)
            i++, got += p->element, want += p->element;
        return i;
    }
    return count;
}
