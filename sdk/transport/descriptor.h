/* Descriptors: each member posts what it has started, and comparing them names
 * a difference before a byte is written. */
#ifndef RG_DESCRIPTOR_H
#define RG_DESCRIPTOR_H

#include "sdk/base/inner.h"
#include "sdk/transport/names.h"

/* A set in a sentence: "the world", or "set 3". */
typedef struct rg__words {
    char text[16];
} rg__words;
RG_INNER rg__words rg__set_words(uint32_t id);

/* What a member posts about an operation: equal on all, but a join's count. */
typedef struct rg__descriptor {
    uint8_t kind, type, op, spare;
    int32_t root;
    uint64_t count, tag;
    double prescale, postscale; /* 0: none */
} rg__descriptor;

_Static_assert(sizeof(rg__descriptor) == 40, "no gaps");

/* Mix a word into a tag that members compare. */
static inline uint64_t rg__tag_mix(uint64_t tag, uint64_t word)
{
    tag = (tag ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return tag ^ tag >> 29;
}

/* OK if all n members of the set posted the same, else ERR_MISMATCH with a
 * sentence that names the ranks. Descriptors are `stride` bytes apart. If some
 * members have joined, *joined is written, and RG__COLL_AGAIN is possible. */
RG_INNER rg_status rg__descriptor_compare(uint32_t id,
                                          const rg__descriptor *descriptor,
                                          size_t stride, int n,
                                          rg__coll *joined);
/* One operation too many, or too few, on one member makes all later ones differ
 * as well. So the descriptors of an operation that differed are kept: if the
 * next one is the same except for a shift by one, that is reported as the
 * reason, instead of a new difference each time. Zeroed before its first use.
 */
typedef struct rg__slip {
    rg__descriptor *before; /* one for each member; owned, NULL: all agreed */
    uint64_t since;         /* number of the operation that differed first */
} rg__slip;

/* Compare the descriptors of the comm's operation of that number. */
RG_INNER rg_status rg__slip_compare(rg__slip *slip, uint64_t number,
                                    uint32_t id,
                                    const rg__descriptor *descriptor,
                                    size_t stride, int n, rg__coll *joined);
RG_INNER void rg__slip_clear(rg__slip *slip);

#endif
