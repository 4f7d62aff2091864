#include "sdk/base/stream.h"

#include <stdint.h>
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/wide.h"

#define BLOCK 128 /* of the wide loop */
#define ALIGN 32

#ifdef RG_WIDE
/* Less is in the cache anyway, or not worth the fence. */
#define LEAST ((size_t)64 << 10)

static size_t stream_blocks(char *to, const char *from, size_t bytes)
{
    const size_t head = (ALIGN - (uintptr_t)to % ALIGN) % ALIGN;
    if (bytes < LEAST || !__builtin_cpu_supports("avx2"))
        return 0;
    const size_t body = (bytes - head) / BLOCK * BLOCK;
    memcpy(to, from, head);
    rg__wide_stream(to + head, from + head, body);
    return head + body;
}
#else
static size_t stream_blocks(char *to, const char *from, size_t bytes)
{
    (void)to, (void)from, (void)bytes;
    return 0;
}
#endif

void rg__stream(void *to, const void *from, size_t bytes)
{
    const size_t done = stream_blocks(to, from, bytes);
    rg__copy((char *)to + done, (const char *)from + done, bytes - done);
}
