/* memcpy for much data: from a staging slot, which begins with a page, into
 * malloc's memory, which begins 16 bytes after one. Threads: any. */
#ifndef RG_BASE_COPY_H
#define RG_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RG__COPY_PAGE  4096
#define RG__COPY_SLOW  32   /* bytes */
#define RG__COPY_BLOCK 2048 /* glibc copies longer ones by rep movsb */

/* rep movsb, and so memcpy up to a MiB, is twenty times slower on AMD Zen 3
 * where `to` lies, modulo a page, up to 31 bytes after `from`: 2 instead of
 * 40 GB/s, measured with glibc 2.36; see
 * https://lunnova.dev/articles/ryzen-slow-short-rep-mov/ */
static inline void rg__copy(void *to, const void *from, size_t bytes)
{
    const uintptr_t behind = ((uintptr_t)to - (uintptr_t)from) % RG__COPY_PAGE;
    size_t at = 0;
    if (behind > 0 && behind < RG__COPY_SLOW)
        for (; bytes - at > RG__COPY_BLOCK; at += RG__COPY_BLOCK)
            memcpy((char *)to + at, (const char *)from + at, RG__COPY_BLOCK);
    memcpy((char *)to + at, (const char *)from + at, bytes - at);
}

#endif
