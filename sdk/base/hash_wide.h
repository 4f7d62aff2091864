/* Between hash.c and the same loop compiled for processors with AVX2, which
 * takes about two thirds of the time. Threads: as hash.h. */
#ifndef RG_BASE_HASH_WIDE_H
#define RG_BASE_HASH_WIDE_H

#include <stddef.h>

/* state is an XXH3_state_t. Not on other processors. */
void rg__hash_update_wide(void *state, const void *data, size_t bytes);

#endif
