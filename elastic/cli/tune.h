/* From which size on reading is faster on this machine; tune_cmd.c measures. */
#ifndef RG_CLI_TUNE_H
#define RG_CLI_TUNE_H

#include <stddef.h>
#include <stdint.h>

#define RG__TUNE_TURNS 2

/* For one size: time of staging / time of reading, in each turn. */
typedef struct rg__tune_point {
    uint64_t bytes;
    double gain[RG__TUNE_TURNS];
} rg__tune_point;

/* The least size to read, from points of rising sizes; `usual` is one of them,
 * and is moved past a size only if all turns agree by 10 % or more. UINT64_MAX:
 * reading never wins. */
uint64_t rg__tune_choose(const rg__tune_point *point, size_t n, uint64_t usual);

#endif
