#include "sdk/base/wide.h"

#include <immintrin.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

void rg__wide_hash(void *state, const void *data, size_t bytes)
{
    XXH3_64bits_update(state, data, bytes);
}

/* Only the fence orders stores that bypass the cache. */
void rg__wide_stream(void *to, const void *from, size_t bytes)
{
    const __m256i *source = from;
    __m256i *target = to;
    for (size_t i = 0; i < bytes / sizeof *source; i += 4) {
        const __m256i a = _mm256_loadu_si256(source + i);
        const __m256i b = _mm256_loadu_si256(source + i + 1);
        const __m256i c = _mm256_loadu_si256(source + i + 2);
        const __m256i d = _mm256_loadu_si256(source + i + 3);
        _mm256_stream_si256(target + i, a);
        _mm256_stream_si256(target + i + 1, b);
        _mm256_stream_si256(target + i + 2, c);
        _mm256_stream_si256(target + i + 3, d);
    }
    _mm_sfence();
}
