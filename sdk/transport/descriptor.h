/* Descriptors: what each member says that it has started, and their comparison,
 * by which a difference between members is named before a byte is written. */
#ifndef RG_DESCRIPTOR_H
#define RG_DESCRIPTOR_H

#include "sdk/base/inner.h"
#include "sdk/transport/names.h"

/* A set in a sentence: "the world", or "set 3". */
typedef struct rg__words {
    char text[16];
} rg__words;
RG_INNER rg__words rg__set_words(uint32_t id);

/* What a member says that it has started: equal on all members, except the
 * count of a join. */
typedef struct rg__descriptor {
    uint8_t kind, type, op, spare;
    int32_t root;
    uint64_t count, tag;
    double prescale, postscale; /* 0: none */
} rg__descriptor;

_Static_assert(sizeof(rg__descriptor) == 40, "no gaps");

/* OK if all n members of the set said the same, else ERR_MISMATCH with the
 * sentence that names the ranks. Lines lie `stride` bytes apart. With a join
 * among them *joined is written, and RG__COLL_AGAIN is possible. */
RG_INNER rg_status rg__descriptor_compare(uint32_t id,
                                          const rg__descriptor *descriptor,
                                          size_t stride, int n,
                                          rg__coll *joined);
/* One operation too many, or too few, on one member makes all later ones differ
 * as well. The descriptors of the last operation, if it differed: if this one
 * is the same except for a shift by one, that is the reason, which is reported
 * instead of another one each time. Zeroed before its first use. */
typedef struct rg__slip {
    rg__descriptor *before; /* one for each member; owned, NULL: all agreed */
    uint64_t since;         /* number of the operation that differed first */
} rg__slip;

/* rg__descriptor_compare of the comm's operation of that number. */
RG_INNER rg_status rg__slip_compare(rg__slip *slip, uint64_t number,
                                    uint32_t id,
                                    const rg__descriptor *descriptor,
                                    size_t stride, int n, rg__coll *joined);
RG_INNER void rg__slip_clear(rg__slip *slip);

#endif
