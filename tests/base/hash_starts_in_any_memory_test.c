/* A hash of a name does not depend on what its memory held before, not even
 * if that was a hash of the same name, partly overwritten.
 *
 * Covers: hash.c */
#include "sdk/base/hash.h"

#include <string.h>

#include "tests/check.h"

#define BYTES 1000
#define BLOCK 64

static uint64_t hash_in(rg__hash *hash, const unsigned char *data)
{
    rg__hash_begin_named(hash, "state");
    rg__hash_update(hash, data, BYTES);
    return rg__hash_value(hash);
}

int main(void)
{
    rg__hash hash = {0};
    unsigned char data[BYTES];
    for (int i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i * 7);
    const uint64_t right = hash_in(&hash, data);
    for (size_t at = 0; at < sizeof hash.room; at += BLOCK) {
        memset(hash.room + at, 0x5a, BLOCK);
        CHECK(hash_in(&hash, data) == right);
    }
    return 0;
}
