/* Half precision and bfloat16 to float and back, rounding to nearest even, and
 * sums of them.
 *
 * Threads: functions without state. The processor's features (F16C with AVX2 or
 * AVX-512) are detected once, at run time; every way gives the same bits. */
#ifndef RG_TRANSPORT_HALF_H
#define RG_TRANSPORT_HALF_H

#include <stdbool.h>

#include "regroup/regroup.h"

/* type is RG_F16 or RG_BF16; in and out need no alignment but float's own. */
void rg__half_widen(rg_type type, float *out, const void *in, size_t n);
void rg__half_narrow(rg_type type, void *out, const float *in, size_t n);

/* Sum each element over the sources in their order, in float32; then multiply,
 * divide, and round once. */
typedef struct rg__half_sum {
    rg_type type;
    float times, over; /* 1: leave it out */
} rg__half_sum;

/* out may be a source. */
void rg__half_add_up(const rg__half_sum *s, void *out, const void *const *src,
                     int n, size_t count);
/* Is a sum made in one pass? In plain C it is faster to widen blocks first. */
bool rg__half_sums_at_once(void);

/* The ways that this processor has: 0 is plain C, and the last is used. */
int rg__half_ways(void);
void rg__half_widen_by(int way, rg_type type, float *out, const void *in,
                       size_t n);
void rg__half_narrow_by(int way, rg_type type, void *out, const float *in,
                        size_t n);
void rg__half_sum_by(int way, const rg__half_sum *s, void *out,
                     const void *const *src, int n, size_t count);

#endif
