/* A hash of a name does not depend on what its memory held before, not even
 * if that was a hash of the same name, partly overwritten.
 *
 * Covers: hash.c */
#include "sdk/base/hash.h"

#include <string.h>

#include "tests/check.h"

#define BYTES 1000
#define BLOCK 64

static uint64_t hash_in(rg__sum *sum, const unsigned char *data)
{
    rg__sum_begin(sum, "state", 0, NULL);
    rg__sum_update(sum, data, BYTES);
    return rg__sum_end(sum);
}

int main(void)
{
    rg__sum sum = {0};
    unsigned char data[BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i * 7);
    const uint64_t right = hash_in(&sum, data);
    for (size_t at = 0; at < sizeof sum.hash.room; at += BLOCK) {
        memset(sum.hash.room + at, 0x5a, BLOCK);
        CHECK(hash_in(&sum, data) == right);
    }
    return 0;
}
