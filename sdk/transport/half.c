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

/* The instruction of AVX512-BF16 is not used: it treats subnormals as 0. */
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
    if (a < F16_SUBNORMAL) /* the last place of this sum is the half's */
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

/* ------------------------------------------------------------------- sums */

/* Elements [i, count). */
static void sum_rest(const rg__half_sum *s, void *out, const void *const *src,
                     int n, size_t i, size_t count)
{
    u16 *to = out;
    for (; i < count; i++) {
        float sum = 0;
        for (int m = 0; m < n; m++) {
            const uint16_t x = ((const u16 *)src[m])[i];
            const float f = s->type == RG_BF16 ? float_of((uint32_t)x << 16)
                                               : f16_to_float(x);
            sum = m == 0 ? f : sum + f;
        }
        if (s->times != 1)
            sum *= s->times;
        if (s->over != 1)
            sum /= s->over;
        to[i] = s->type == RG_BF16 ? bf16_of(bits_of(sum)) : f16_of(sum);
    }
}

static void sum_plain(const rg__half_sum *s, void *out, const void *const *src,
                      int n, size_t count)
{
    sum_rest(s, out, src, n, 0, count);
}

#ifdef RG_X86
/* One pass: two registers full of floats are widened, added up over all
 * sources, rounded once, and stored. */
#define SUM(V, LANES, SET, WIDEN, NARROW)                                      \
    do {                                                                       \
        const V times = SET(s->times), over = SET(s->over);                    \
        const bool is_scaled = s->times != 1 || s->over != 1;                  \
        size_t i = 0;                                                          \
        for (; i + 2 * (LANES) <= count; i += 2 * (LANES)) {                   \
            V a = WIDEN(src[0], i), b = WIDEN(src[0], i + (LANES));            \
            for (int m = 1; m < n; m++) {                                      \
                const u16 *x = src[m];                                         \
                a += WIDEN(x, i);                                              \
                b += WIDEN(x, i + (LANES));                                    \
            }                                                                  \
            if (is_scaled) {                                                   \
                a = a * times / over;                                          \
                b = b * times / over;                                          \
            }                                                                  \
            NARROW(out, i, a);                                                 \
            NARROW(out, i + (LANES), b);                                       \
        }                                                                      \
        sum_rest(s, out, src, n, i, count);                                    \
    } while (0)

#define LOAD_8(p, i)                                                           \
    _mm_loadu_si128((const __m128i_u *)(const void *)((const u16 *)(p) + (i)))
#define LOAD_16(p, i)                                                          \
    _mm256_loadu_si256(                                                        \
        (const __m256i_u *)(const void *)((const u16 *)(p) + (i)))
#define STORE_8(p, i, x)                                                       \
    _mm_storeu_si128((__m128i_u *)(void *)((u16 *)(p) + (i)), x)
#define STORE_16(p, i, x)                                                      \
    _mm256_storeu_si256((__m256i_u *)(void *)((u16 *)(p) + (i)), x)

#define F16_WIDE_8(p, i)  _mm256_cvtph_ps(LOAD_8(p, i))
#define F16_WIDE_16(p, i) _mm512_cvtph_ps(LOAD_16(p, i))
#define F16_NARROW_8(p, i, x)                                                  \
    STORE_8(p, i, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT))
#define F16_NARROW_16(p, i, x)                                                 \
    STORE_16(p, i, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT))

#define BF16_WIDE_8(p, i)                                                      \
    _mm256_castsi256_ps(                                                       \
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(LOAD_8(p, i)), 16))
#define BF16_WIDE_16(p, i)                                                     \
    _mm512_castsi512_ps(                                                       \
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(LOAD_16(p, i)), 16))
#define BF16_NARROW_8(p, i, x)  STORE_8(p, i, bf16_of_8(x))
#define BF16_NARROW_16(p, i, x) STORE_16(p, i, bf16_of_16(x))

/* Eight at a time, as bf16_of does. */
__attribute__((target("avx2"))) static inline __m128i bf16_of_8(__m256 x)
{
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i is_nan =
        _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i all = _mm256_blendv_epi8(rounded, quiet, is_nan);
    const __m256i packed = _mm256_packus_epi32(all, all); /* half by half */
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

AVX512 static inline __m256i bf16_of_16(__m512 x)
{
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, up), 16);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(
        _mm512_mask_blend_epi32(is_nan, rounded, quiet));
}

__attribute__((target("avx2,f16c"))) static void
sum_avx2(const rg__half_sum *s, void *out, const void *const *src, int n,
         size_t count)
{
    if (s->type == RG_BF16)
        SUM(__m256, 8, _mm256_set1_ps, BF16_WIDE_8, BF16_NARROW_8);
    else
        SUM(__m256, 8, _mm256_set1_ps, F16_WIDE_8, F16_NARROW_8);
}

AVX512 static void sum_avx512(const rg__half_sum *s, void *out,
                              const void *const *src, int n, size_t count)
{
    if (s->type == RG_BF16)
        SUM(__m512, 16, _mm512_set1_ps, BF16_WIDE_16, BF16_NARROW_16);
    else
        SUM(__m512, 16, _mm512_set1_ps, F16_WIDE_16, F16_NARROW_16);
}
#endif

/* --------------------------------------------------------------- the ways */

typedef void (*widen_fn)(float *restrict, const void *restrict, size_t);
typedef void (*narrow_fn)(void *restrict, const float *restrict, size_t);
typedef void (*sum_fn)(const rg__half_sum *, void *, const void *const *, int,
                       size_t);

typedef struct way {
    widen_fn f16_widen, bf16_widen;
    narrow_fn f16_narrow, bf16_narrow;
    sum_fn sum;
} way;

static const way ways[] = {{f16_widen_plain, bf16_widen_plain, f16_narrow_plain,
                            bf16_narrow_plain, sum_plain},
#ifdef RG_X86
                           {f16_widen_f16c, bf16_widen_avx2, f16_narrow_f16c,
                            bf16_narrow_avx2, sum_avx2},
                           {f16_widen_f16c, bf16_widen_avx512, f16_narrow_f16c,
                            bf16_narrow_avx512, sum_avx512}
#endif
};

#define WAYS ((int)(sizeof ways / sizeof *ways))

static int find_ways(void)
{
#ifdef RG_X86
    unsigned a, b, c, d; /* some compilers do not know F16C by name */
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

void rg__half_sum_by(int i, const rg__half_sum *s, void *out,
                     const void *const *src, int n, size_t count)
{
    ways[i].sum(s, out, src, n, count);
}

bool rg__half_sums_at_once(void)
{
    return rg__half_ways() > 1;
}

void rg__half_add_up(const rg__half_sum *s, void *out, const void *const *src,
                     int n, size_t count)
{
    rg__half_sum_by(rg__half_ways() - 1, s, out, src, n, count);
}

void rg__half_widen(rg_type type, float *out, const void *in, size_t n)
{
    rg__half_widen_by(rg__half_ways() - 1, type, out, in, n);
}

void rg__half_narrow(rg_type type, void *out, const float *in, size_t n)
{
    rg__half_narrow_by(rg__half_ways() - 1, type, out, in, n);
}
