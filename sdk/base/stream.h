/* Copying much data that is not read soon, such as to the vault, which is
 * written at every commit and read after a failure. Threads: any. */
#ifndef RG_BASE_STREAM_H
#define RG_BASE_STREAM_H

#include <stddef.h>

/* memcpy, past the caches if that is faster; what was copied is visible to
 * others before any later store of this thread is. */
void rg__stream(void *to, const void *from, size_t bytes);

#endif
