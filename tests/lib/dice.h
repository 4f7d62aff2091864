/* Numbers that follow from a seed: equal on all ranks for equal seeds. Threads:
 * one for each dice. */
#ifndef TESTS_LIB_DICE_H
#define TESTS_LIB_DICE_H

#include <stdint.h>

typedef struct dice {
    uint64_t state;
} dice;

/* Another seed for each (seed, which). */
static inline uint64_t dice_seed(uint64_t seed, uint64_t which)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + which + 1;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* 0 .. sides - 1. */
static inline uint64_t dice_roll(dice *d, uint64_t sides)
{
    d->state = dice_seed(d->state, 0);
    return (d->state >> 16) % sides;
}

/* 1 once in so many times. */
static inline int dice_once_in(dice *d, uint64_t times)
{
    return dice_roll(d, times) == 0;
}

#endif
