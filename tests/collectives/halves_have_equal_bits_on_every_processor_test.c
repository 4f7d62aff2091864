/* B15: conversions of half precision and bfloat16 give the same bits with the
 * processor's instructions and in plain C, for all 65,536 values and for floats
 * around every rounding; a value that came from one goes back to it. */
#include <stdbool.h>
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

static void widen_all(rg_type type)
{
    for (int i = 0; i < N; i++)
        all[i] = (uint16_t)i;
    rg__half_widen(type, wide[0], all, N);
    rg__half_widen_plain(type, wide[1], all, N);
    CHECK(memcmp(wide[0], wide[1], sizeof wide[0]) == 0);
    rg__half_narrow(type, back[0], wide[0], N);
    for (int i = 0; i < N; i++)
        CHECK(back[0][i] == all[i] || is_nan(type, all[i]));
}

/* Each value moved by a little, so that every way of rounding is met. */
static void narrow_all(rg_type type)
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
        rg__half_narrow(type, back[0], wide[0], N - 3);
        rg__half_narrow_plain(type, back[1], wide[0], N - 3);
        CHECK(memcmp(back[0], back[1], (N - 3) * sizeof back[0][0]) == 0);
    }
}

static void known_values(void)
{
    const float f[] = {1, 65504, 65520, 0x1p-24f, 0x1p-25f, 0x1.8p-25f, -0.0f};
    const uint16_t want[] = {0x3c00, 0x7bff, 0x7c00, 1, 0, 1, 0x8000};
    uint16_t got[7];
    rg__half_narrow_plain(RG_F16, got, f, 7);
    CHECK(memcmp(got, want, sizeof want) == 0);
    const float b[] = {1, 1 + 0x1p-8f, 1 + 0x1.8p-7f, 0x1p-149f};
    const uint16_t bf[] = {0x3f80, 0x3f80, 0x3f82, 0};
    rg__half_narrow_plain(RG_BF16, got, b, 4);
    CHECK(memcmp(got, bf, sizeof bf) == 0);
}

int main(void)
{
    known_values();
    widen_all(RG_F16);
    narrow_all(RG_F16);
    widen_all(RG_BF16);
    narrow_all(RG_BF16);
    return 0;
}
