#include "sdk/base/hash_wide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

void rg__hash_update_wide(void *state, const void *data, size_t bytes)
{
    XXH3_64bits_update(state, data, bytes);
}
