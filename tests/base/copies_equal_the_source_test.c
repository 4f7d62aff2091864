/* rg__copy and rg__stream are memcpy, for any size and alignment, and touch
 * nothing beside.
 *
 * Covers: stream.c */
#include "sdk/base/copy.h"
#include "sdk/base/stream.h"
#include "tests/check.h"

#define MOST   ((size_t)200000)
#define MARGIN ((size_t)4096)

typedef void (*copy_fn)(void *to, const void *from, size_t bytes);

_Alignas(4096) static unsigned char from[MOST + 64];
_Alignas(4096) static unsigned char to[MOST + 2 * MARGIN];

static void check(copy_fn copy, size_t source, size_t target, size_t bytes)
{
    unsigned char *const at = to + MARGIN + target;
    memset(to, 0xee, sizeof to);
    copy(at, from + source, bytes);
    CHECK(memcmp(at, from + source, bytes) == 0);
    for (size_t i = 0; i < MARGIN + target; i++)
        CHECK_EQ(to[i], 0xee);
    for (size_t i = MARGIN + target + bytes; i < sizeof to; i++)
        CHECK_EQ(to[i], 0xee);
}

int main(void)
{
    const copy_fn copies[] = {rg__copy, rg__stream};
    const size_t sizes[] = {0,     1,     127,   2047,   2048,     2049,
                            10000, 65535, 65536, 131071, MOST - 64};
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 131 + i / 251);
    for (size_t c = 0; c < sizeof copies / sizeof *copies; c++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            for (size_t a = 0; a < 40; a += 13)
                for (size_t b = 0; b < 40; b += 3)
                    check(copies[c], a, b, sizes[s]);
    return 0;
}
