/* Loops over whole buffers, compiled for processors with AVX2: used by hash.h
 * and stream.h, which check the processor first. Threads: any. */
#ifndef RG_BASE_WIDE_H
#define RG_BASE_WIDE_H

#include <stddef.h>

/* state is an XXH3_state_t. */
void rg__wide_hash(void *state, const void *data, size_t bytes);

/* bytes is a multiple of 128 and `to` of 32. */
void rg__wide_stream(void *to, const void *from, size_t bytes);

#endif
