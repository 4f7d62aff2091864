/* Reductions over elements. Buffers need no alignment.
 *
 * Threads: functions without state. Type and op are known to go together
 * (rg_op_has). Integers wrap. F16 and BF16 are computed in float32 and rounded
 * at the end of each call. */
#ifndef RG_TRANSPORT_REDUCE_H
#define RG_TRANSPORT_REDUCE_H

#include "sdk/base/inner.h"
#include "sdk/transport/transport.h"

#define RG__SOURCES_MAX  64
#define RG__REDUCE_BLOCK ((size_t)16 << 10) /* fits the cache; 4 was slower */

/* out[i] = a[i] op b[i]; out may be a or b. AVG only adds. */
RG_INNER void rg__reduce(rg_type type, rg_op op, void *out, const void *a,
                         const void *b, size_t count);

/* out[i] = op over src[0][i] .. src[n - 1][i] in that order, each prescaled;
 * out may be one of them if n is 1 or 2. of > 0: out is the whole result of
 * that many members, and is finished as rg__finish does, before it is rounded.
 * of < 0: out is a part of the sum of that many, which rg__finish finishes; an
 * F16 one is scaled down by a power of two, because a sum may be out of range
 * though the final result is not. n is RG__SOURCES_MAX at most. */
RG_INNER void rg__combine(const rg__coll *coll, void *out,
                          const void *const *src, int n, size_t count, int of);

/* What comes after the last op: AVG's division by n, the postscale. The parts
 * were made by rg__combine with of = -n. */
RG_INNER void rg__finish(const rg__coll *coll, void *data, size_t count, int n);

/* The scale of parts of a sum of n members: 1, or a smaller power of two. */
RG_INNER float rg__held_down(const rg__coll *coll, int n);

/* Does rg__finish do anything? */
RG_INNER bool rg__is_finished_by(const rg__coll *coll);

/* Fill data with elements that change nothing when they take part. */
RG_INNER void rg__neutral(rg_type type, rg_op op, void *data, size_t count);

#endif
