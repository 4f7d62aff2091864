/* Elementwise arithmetic, bounded by memory rather than by cleverness. Buffers
 * need no alignment. Sums of integers wrap. */
#ifndef RG_NATIVE_REDUCE_H
#define RG_NATIVE_REDUCE_H

#include <stddef.h>

#include "regroup/regroup.h"

/* out = a op b; out may be a or b, other overlaps are not allowed. AVG adds. */
void rg__reduce(rg_type type, rg_op op, void *out, const void *a, const void *b,
                size_t count);

/* data /= n, for AVG; integers truncate. */
void rg__divide(rg_type type, void *data, size_t count, int n);

#endif
