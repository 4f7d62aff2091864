/* B15: conversions of half precision and bfloat16 give the same bits in each
 * way that the processor has (F16C, AVX2, AVX-512) and in plain C, for all
 * 65,536 values and for floats around every rounding; a value that came from
 * one goes back to it. So do sums in one pass, for any number of sources and
 * any length: what widening, adding, scaling and narrowing one after the other
 * give. The last of these ways is used, and detected once:
 * asking the processor for each block would take as long as hundreds of
 * additions.
 *
 * Covers: half.c */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sdk/transport/half.h"
#include "tests/check.h"

#define N 65536

static uint16_t all[N], back[2][N];
static float wide[2][N];

static bool is_nan(rg_type type, uint16_t h)
{
    return (h & 0x7fff) > (type == RG_F16 ? 0x7c00 : 0x7f80);
}

static void widen_all(int way, rg_type type)
{
    for (int i = 0; i < N; i++)
        all[i] = (uint16_t)i;
    rg__half_widen_by(way, type, wide[0], all, N);
    rg__half_widen_by(0, type, wide[1], all, N);
    CHECK(memcmp(wide[0], wide[1], sizeof wide[0]) == 0);
    rg__half_narrow_by(way, type, back[0], wide[0], N);
    for (int i = 0; i < N; i++)
        CHECK(back[0][i] == all[i] || is_nan(type, all[i]));
}

/* Each value moved by a little, so that every way of rounding is met. */
static void narrow_all(int way, rg_type type)
{
    static const int by[] = {0,      1,      -1,     0xfff,  0x1000, 0x1001,
                             0x7fff, 0x8000, 0x8001, 0x1fff, 0x2000};
    for (int k = 0; k < (int)(sizeof by / sizeof *by); k++) {
        for (int i = 0; i < N; i++) {
            uint32_t bits;
            memcpy(&bits, &wide[1][i], sizeof bits);
            bits += (uint32_t)by[k];
            memcpy(&wide[0][i], &bits, sizeof bits);
        }
        rg__half_narrow_by(way, type, back[0], wide[0], N - 3);
        rg__half_narrow_by(0, type, back[1], wide[0], N - 3);
        CHECK(memcmp(back[0], back[1], (N - 3) * sizeof back[0][0]) == 0);
    }
}

static void known_values(int way)
{
    const float f[] = {1, 65504, 65520, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, -0.0f};
    const uint16_t want[] = {0x3c00, 0x7bff, 0x7c00, 1, 0, 1, 0x8000};
    uint16_t got[7];
    rg__half_narrow_by(way, RG_F16, got, f, 7);
    CHECK(memcmp(got, want, sizeof want) == 0);
    const float b[] = {1, 1 + 0x1p-8f, 1 + 0x1.8p-7f, 0x1p-149f};
    const uint16_t bf[] = {0x3f80, 0x3f80, 0x3f82, 0};
    rg__half_narrow_by(way, RG_BF16, got, b, 4);
    CHECK(memcmp(got, bf, sizeof bf) == 0);
}

/* Short and odd lengths, too: what is left over behind the last vector. */
static void short_ones(int way, rg_type type)
{
    for (int n = 0; n < 70; n++) {
        float f[2][70];
        uint16_t h[2][70];
        rg__half_widen_by(way, type, f[0], all + 15000 + 7 * n, (size_t)n);
        rg__half_widen_by(0, type, f[1], all + 15000 + 7 * n, (size_t)n);
        CHECK(memcmp(f[0], f[1], (size_t)n * sizeof *f[0]) == 0);
        rg__half_narrow_by(way, type, h[0], f[1], (size_t)n);
        rg__half_narrow_by(0, type, h[1], f[1], (size_t)n);
        CHECK(memcmp(h[0], h[1], (size_t)n * sizeof *h[0]) == 0);
    }
}

#define SOURCES 5

static uint16_t source[SOURCES][N];

/* Each source has other neighbours, so that large and small ones meet. */
static void make_sources(void)
{
    for (int m = 0; m < SOURCES; m++)
        for (int i = 0; i < N; i++)
            source[m][i] = (uint16_t)((i * (2 * m + 1) + m * 20011) ^ m);
}

static void sum_apart(const rg__half_sum *s, int n)
{
    rg__half_widen_by(0, s->type, wide[0], source[0], N);
    for (int m = 1; m < n; m++) {
        rg__half_widen_by(0, s->type, wide[1], source[m], N);
        for (int i = 0; i < N; i++)
            wide[0][i] += wide[1][i];
    }
    for (int i = 0; i < N; i++)
        wide[0][i] = wide[0][i] * s->times / s->over;
    rg__half_narrow_by(0, s->type, back[0], wide[0], N);
}

static void sums(int way, rg_type type)
{
    const float ends[][2] = {{1, 1}, {0x1p-3f, 1}, {1, 5}};
    const void *src[SOURCES];
    for (int m = 0; m < SOURCES; m++)
        src[m] = source[m];
    for (int n = 1; n <= SOURCES; n++)
        for (int e = 0; e < 3; e++) {
            const rg__half_sum s = {type, ends[e][0], ends[e][1]};
            const size_t count = e == 0 ? N : (size_t)(N - 71 + 7 * n + e);
            memset(back[1], 0, sizeof back[1]);
            sum_apart(&s, n);
            rg__half_sum_by(way, &s, back[1], src, n, count);
            for (size_t i = 0; i < N; i++)
                CHECK(back[1][i] == (i < count ? back[0][i] : 0) ||
                      (is_nan(type, back[0][i]) && is_nan(type, back[1][i])));
        }
}

/* What is taken does what the last way does. */
static void taken(rg_type type)
{
    rg__half_widen(type, wide[0], all, N);
    rg__half_widen_by(rg__half_ways() - 1, type, wide[1], all, N);
    CHECK(memcmp(wide[0], wide[1], sizeof wide[0]) == 0);
    rg__half_narrow(type, back[0], wide[1], N);
    rg__half_narrow_by(rg__half_ways() - 1, type, back[1], wide[1], N);
    CHECK(memcmp(back[0], back[1], sizeof back[0]) == 0);
}

int main(void)
{
    make_sources();
    for (int way = 0; way < rg__half_ways(); way++) {
        printf("way %d\n", way);
        known_values(way);
        for (int is_brain = 0; is_brain < 2; is_brain++) {
            const rg_type type = is_brain ? RG_BF16 : RG_F16;
            widen_all(way, type);
            narrow_all(way, type);
            short_ones(way, type);
            taken(type);
            sums(way, type);
        }
    }
    return 0;
}
