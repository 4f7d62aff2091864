/* rg__stream is memcpy, for any size and alignment, and touches nothing beside.
 */
#include "sdk/base/stream.h"
#include "tests/check.h"

#define MOST ((size_t)200000)

static unsigned char from[MOST + 64], to[MOST + 256];

static void check(size_t source, size_t target, size_t bytes)
{
    memset(to, 0xee, sizeof to);
    rg__stream(to + 64 + target, from + source, bytes);
    CHECK(memcmp(to + 64 + target, from + source, bytes) == 0);
    for (size_t i = 0; i < 64 + target; i++)
        CHECK_EQ(to[i], 0xee);
    for (size_t i = 64 + target + bytes; i < sizeof to; i++)
        CHECK_EQ(to[i], 0xee);
}

int main(void)
{
    const size_t sizes[] = {0, 1, 127, 65535, 65536, 65567, 131071, MOST - 64};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 131 + i / 251);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t a = 0; a < 40; a += 13)
            for (size_t b = 0; b < 40; b += 3)
                check(a, b, sizes[s]);
    return 0;
}
