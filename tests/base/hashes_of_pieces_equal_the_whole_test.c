/* The checksum of a commit: standard XXH3, the same in pieces of any size,
 * different under another name or in another place, and a sum in any order.
 *
 * Covers: hash.c */
#include "sdk/base/hash.h"
#include "tests/check.h"

#include <string.h>

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
    rg__sum sum;
    rg__sum_begin(&sum, name, 0, NULL);
    rg__sum_update(&sum, data, bytes);
    return rg__sum_end(&sum);
}

/* Whatever the pieces in which bytes come, a sum is that of its blocks, and
 * shows which block lies where. */
static void check_blocks(void)
{
    static unsigned char slice[3 * RG__BLOCK - 5];
    _Atomic uint64_t table[3], again[3];
    const uint64_t *one = (const uint64_t *)table;
    rg__sum sum;
    for (size_t i = 0; i < sizeof slice; i++)
        slice[i] = (unsigned char)(i / RG__BLOCK);
    rg__sum_begin(&sum, "w", 0, table);
    rg__sum_update(&sum, slice, sizeof slice);
    const uint64_t whole = rg__sum_end(&sum);
    CHECK_EQ(whole, one[0] + one[1] + one[2]);
    rg__sum_begin(&sum, "w", 0, again);
    for (size_t at = 0, n = 99991; at < sizeof slice; at += n)
        rg__sum_update(&sum, slice + at,
                       n < sizeof slice - at ? n : sizeof slice - at);
    CHECK_EQ(rg__sum_end(&sum), whole);
    CHECK(memcmp(table, again, sizeof table) == 0);
    rg__sum_begin(&sum, "w", RG__BLOCK, NULL);
    rg__sum_update(&sum, slice + RG__BLOCK, RG__BLOCK);
    CHECK_EQ(rg__sum_end(&sum), one[1]);
    rg__sum_begin(&sum, "w", 0, NULL); /* the first two change places */
    rg__sum_update(&sum, slice + RG__BLOCK, RG__BLOCK);
    rg__sum_update(&sum, slice, RG__BLOCK);
    CHECK(rg__sum_end(&sum) != one[0] + one[1]);
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
    check_blocks();
    CHECK(named("w", 10) + named("v", 20) != named("v", 10) + named("w", 20));
    return 0;
}
