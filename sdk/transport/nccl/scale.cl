/* Scales and divides elements on the device, where NCCL rounds the factor to the
 * type: each element is computed wider and rounded once, as on host memory
 * (transport/reduce.c).
 *
 *   out[i] = in[i] * before / over * by     0: that step is left out
 *
 * Integers are computed in double and cut, and beyond the type's range become
 * its nearest value; over divides them as integers. Halves are computed in
 * float.
 *
 * OpenCL C, which clang turns into PTX without any SDK; and plain C, as which
 * the stand-in of tests/device compiles the same lines. Without OpenCL, KERNEL,
 * GLOBAL, FIRST and STEP are the includer's. */
#ifdef __OPENCL_C_VERSION__
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define KERNEL __kernel
#define GLOBAL __global
#define FIRST                                                                  \
    ((u64)__nvvm_read_ptx_sreg_ctaid_x() * __nvvm_read_ptx_sreg_ntid_x() +   \
     __nvvm_read_ptx_sreg_tid_x())
#define STEP                                                                   \
    ((u64)__nvvm_read_ptx_sreg_nctaid_x() * __nvvm_read_ptx_sreg_ntid_x())
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long i64;
typedef unsigned long u64;
#endif

typedef union bits {
    u32 bits;
    float value;
} bits;

static inline u32 bits_of(float f)
{
    const bits b = {.value = f};
    return b.bits;
}

static inline float float_of(u32 u)
{
    const bits b = {.bits = u};
    return b.value;
}

/* ------------------------------------------------------------------- halves */

static inline float widen_bf16(u16 h)
{
    return float_of((u32)h << 16);
}

/* To the nearest, and to the even of two; a NaN stays one. */
static inline u16 narrow_bf16(float f)
{
    const u32 b = bits_of(f);
    if ((b & 0x7fffffffu) > 0x7f800000u)
        return (u16)(b >> 16 | 0x40u);
    return (u16)((b + 0x7fffu + (b >> 16 & 1u)) >> 16);
}

static inline float widen_f16(u16 h)
{
    const u32 sign = (u32)(h & 0x8000u) << 16;
    const u32 exponent = h >> 10 & 0x1fu, fraction = h & 0x3ffu;
    if (exponent == 0)
        return float_of(sign | bits_of((float)fraction * 0x1p-24f));
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13 |
                        (fraction != 0 ? 0x400000u : 0));
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* Below 2^-14 a half's last place is that of 0.5. */
static inline u16 narrow_f16(float f)
{
    const u32 b = bits_of(f), a = b & 0x7fffffffu, sign = b >> 16 & 0x8000u;
    if (a > 0x7f800000u)
        return (u16)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x47800000u)
        return (u16)(sign | 0x7c00u);
    if (a < 0x38800000u)
        return (u16)(sign | (bits_of(float_of(a) + 0.5f) - 0x3f000000u));
    return (u16)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);
}

/* ----------------------------------------------------------------- integers */

#define CUT(T, LOW, ABOVE, HIGH)                                               \
    static inline T cut_##T(double v)                                          \
    {                                                                          \
        if (v >= (ABOVE))                                                      \
            return (HIGH);                                                     \
        if (v <= (LOW))                                                        \
            return (T)(LOW);                                                   \
        return v == v ? (T)v : (T)0;                                           \
    }
CUT(u8, 0.0, 256.0, 255)
CUT(i8, -128.0, 128.0, 127)
CUT(i32, -2147483648.0, 2147483648.0, 2147483647)
CUT(u32, 0.0, 4294967296.0, 4294967295u)
CUT(i64, -9223372036854775808.0, 9223372036854775808.0, 9223372036854775807)
CUT(u64, 0.0, 18446744073709551616.0, 18446744073709551615u)

/* ------------------------------------------------------------------ kernels */

/* W: what T is computed in, DIVISOR: what it is divided by. */
#define SCALE(NAME, T, W, WIDEN, NARROW, TIMES, DIVISOR)                       \
    KERNEL void rg_scale_##NAME(GLOBAL T *out, GLOBAL const T *in, u64 n,      \
                                double before, int over, double by)            \
    {                                                                          \
        for (u64 i = FIRST; i < n; i += STEP) {                                \
            W v = WIDEN(in[i]);                                                \
            if (before != 0)                                                   \
                v = TIMES((double)v * before);                                 \
            if (over != 0)                                                     \
                v = (W)(v / (DIVISOR)over);                                    \
            if (by != 0)                                                       \
                v = TIMES((double)v * by);                                     \
            out[i] = NARROW(v);                                                \
        }                                                                      \
    }
SCALE(u8, u8, u8, (u8), (u8), cut_u8, int)
SCALE(i8, i8, i8, (i8), (i8), cut_i8, int)
SCALE(i32, i32, i32, (i32), (i32), cut_i32, i64)
SCALE(u32, u32, u32, (u32), (u32), cut_u32, u64)
SCALE(i64, i64, i64, (i64), (i64), cut_i64, i64)
SCALE(u64, u64, u64, (u64), (u64), cut_u64, u64)
SCALE(f16, u16, float, widen_f16, narrow_f16, (float), float)
SCALE(bf16, u16, float, widen_bf16, narrow_bf16, (float), float)
SCALE(f32, float, float, (float), (float), (float), float)
SCALE(f64, double, double, (double), (double), (double), double)
