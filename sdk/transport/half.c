#include "sdk/transport/half.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define RG_X86
#endif

typedef uint16_t __attribute__((aligned(1), may_alias)) u16;
typedef uint32_t __attribute__((may_alias)) w32;

/* --------------------------------------------------------------- bfloat16 */

#define BF16_WIDEN                                                             \
    do {                                                                       \
        const u16 *x = in;                                                     \
        w32 *to = (w32 *)(void *)out;                                          \
        for (size_t i = 0; i < n; i++)                                         \
            to[i] = (uint32_t)x[i] << 16;                                      \
    } while (0)

/* A NaN stays one, and becomes quiet. */
static inline uint16_t bf16_of(uint32_t bits)
{
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

#define BF16_NARROW                                                            \
    do {                                                                       \
        const w32 *x = (const w32 *)(const void *)in;                          \
        u16 *to = out;                                                         \
        for (size_t i = 0; i < n; i++)                                         \
            to[i] = bf16_of(x[i]);                                             \
    } while (0)

static void bf16_widen_plain(float *restrict out, const void *restrict in,
                             size_t n)
{
    BF16_WIDEN;
}

static void bf16_narrow_plain(void *restrict out, const float *restrict in,
                              size_t n)
{
    BF16_NARROW;
}

#ifdef RG_X86
__attribute__((target("avx2"))) static void
bf16_widen_avx2(float *restrict out, const void *restrict in, size_t n)
{
    BF16_WIDEN;
}

__attribute__((target("avx2"))) static void
bf16_narrow_avx2(void *restrict out, const float *restrict in, size_t n)
{
    BF16_NARROW;
}

__attribute__((target("avx512f,avx512bw,avx512vl"))) static void
bf16_widen_avx512(float *restrict out, const void *restrict in, size_t n)
{
    BF16_WIDEN;
}

/* AVX512-BF16 has an instruction for this, which takes subnormals for 0. */
__attribute__((target("avx512f,avx512bw,avx512vl"))) static void
bf16_narrow_avx512(void *restrict out, const float *restrict in, size_t n)
{
    BF16_NARROW;
}
#endif

/* ---------------------------------------------------------- half precision */

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = h >> 10 & 0x1fu, fraction = h & 0x3ffu;
    if (exponent == 0)
        return float_of(sign | bits_of((float)fraction * 0x1p-24f));
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13 |
                        (fraction != 0 ? 0x400000u : 0));
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

#define F16_INFINITE  0x47800000u /* 2^16 */
#define F16_SUBNORMAL 0x38800000u /* 2^-14: below it, halves are subnormal */

static uint16_t f16_of(float f)
{
    const uint32_t bits = bits_of(f), a = bits & 0x7fffffffu;
    const uint32_t sign = bits >> 16 & 0x8000u;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= F16_INFINITE)
        return (uint16_t)(sign | 0x7c00u);
    if (a < F16_SUBNORMAL) /* the sum has the half's last place as its own */
        return (uint16_t)(sign | (bits_of(float_of(a) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign |
                      ((a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13));
}

static void f16_widen_plain(float *restrict out, const void *restrict in,
                            size_t n)
{
    const u16 *x = in;
    for (size_t i = 0; i < n; i++)
        out[i] = f16_to_float(x[i]);
}

static void f16_narrow_plain(void *restrict out, const float *restrict in,
                             size_t n)
{
    u16 *to = out;
    for (size_t i = 0; i < n; i++)
        to[i] = f16_of(in[i]);
}

#ifdef RG_X86
__attribute__((target("avx2,f16c"))) static void
f16_widen_f16c(float *restrict out, const void *restrict in, size_t n)
{
    const u16 *x = in;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(
                             (const __m128i_u *)(const void *)(x + i))));
    f16_widen_plain(out + i, x + i, n - i);
}

__attribute__((target("avx2,f16c"))) static void
f16_narrow_f16c(void *restrict out, const float *restrict in, size_t n)
{
    u16 *to = out;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i_u *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i),
                                         _MM_FROUND_TO_NEAREST_INT));
    f16_narrow_plain(to + i, in + i, n - i);
}
#endif

/* --------------------------------------------------------------- the ways */

typedef void (*widen_fn)(float *restrict, const void *restrict, size_t);
typedef void (*narrow_fn)(void *restrict, const float *restrict, size_t);

typedef struct way {
    const char *name;
    widen_fn f16_widen, bf16_widen;
    narrow_fn f16_narrow, bf16_narrow;
} way;

static const way ways[] = {
    {"plain C", f16_widen_plain, bf16_widen_plain, f16_narrow_plain,
     bf16_narrow_plain},
#ifdef RG_X86
    {"F16C and AVX2", f16_widen_f16c, bf16_widen_avx2, f16_narrow_f16c,
     bf16_narrow_avx2},
    {"F16C and AVX-512", f16_widen_f16c, bf16_widen_avx512, f16_narrow_f16c,
     bf16_narrow_avx512}
#endif
};

#define WAYS ((int)(sizeof ways / sizeof *ways))

static int find_ways(void)
{
#ifdef RG_X86
    unsigned a, b, c, d; /* not every compiler knows F16C by name */
    if (!__builtin_cpu_supports("avx2") || !__get_cpuid(1, &a, &b, &c, &d) ||
        (c & bit_F16C) == 0)
        return 1;
    return __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512vl")
               ? WAYS
               : WAYS - 1;
#else
    return 1;
#endif
}

/* Asking the processor is costly, above all in a virtual machine. */
int rg__half_ways(void)
{
    static _Atomic int found;
    int n = atomic_load_explicit(&found, memory_order_relaxed);
    if (n == 0) {
        n = find_ways();
        atomic_store_explicit(&found, n, memory_order_relaxed);
    }
    return n;
}

const char *rg__half_way_name(int i)
{
    return ways[i].name;
}

void rg__half_widen_by(int i, rg_type type, float *out, const void *in,
                       size_t n)
{
    (type == RG_BF16 ? ways[i].bf16_widen : ways[i].f16_widen)(out, in, n);
}

void rg__half_narrow_by(int i, rg_type type, void *out, const float *in,
                        size_t n)
{
    (type == RG_BF16 ? ways[i].bf16_narrow : ways[i].f16_narrow)(out, in, n);
}

void rg__half_widen(rg_type type, float *out, const void *in, size_t n)
{
    rg__half_widen_by(rg__half_ways() - 1, type, out, in, n);
}

void rg__half_narrow(rg_type type, void *out, const float *in, size_t n)
{
    rg__half_narrow_by(rg__half_ways() - 1, type, out, in, n);
}
