/* The checksum of a commit: standard XXH3, the same in pieces of any size,
 * different under another name, and a sum in any order.
 *
 * Covers: hash.c */
#include "sdk/base/hash.h"
#include "tests/check.h"

#define BYTES 100003

static unsigned char data[BYTES];

static uint64_t in_pieces(size_t piece)
{
    rg__hash hash;
    rg__hash_begin(&hash);
    for (size_t at = 0; at < BYTES; at += piece)
        rg__hash_update(&hash, data + at,
                        BYTES - at < piece ? BYTES - at : piece);
    return rg__hash_value(&hash);
}

static uint64_t named(const char *name, size_t bytes)
{
    rg__hash hash;
    rg__hash_begin_named(&hash, name);
    rg__hash_update(&hash, data, bytes);
    return rg__hash_value(&hash);
}

int main(void)
{
    for (int i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i * 131 + i / 7);
    /* printf '' | xxh3sum; the same of "a" */
    CHECK_EQ(rg__hash_of(data, 0), 0x2d06800538d394c2);
    CHECK_EQ(rg__hash_of("a", 1), 0xe6c632b61e964e1f);
    const size_t sizes[] = {1, 63, 64, 240, 241, 1024, 65536, BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        CHECK_EQ(in_pieces(sizes[i]), rg__hash_of(data, BYTES));
    CHECK(named("w", BYTES) != named("v", BYTES));
    CHECK(named("w", BYTES) != rg__hash_of(data, BYTES));
    CHECK(named("w", 10) + named("v", 20) != named("v", 10) + named("w", 20));
    return 0;
}
