/* The smaller of two numbers. Threads: any. */
#ifndef RG_BASE_LEAST_H
#define RG_BASE_LEAST_H

#include <stdint.h>

static inline uint64_t rg__least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

#endif
