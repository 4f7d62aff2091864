/* Types and ops of regroup.h, in its order, and the names of what members say.
 * Threads: any. */
#ifndef RG_TRANSPORT_NAMES_H
#define RG_TRANSPORT_NAMES_H

#include <stdint.h>

#include "sdk/base/inner.h"
#include "sdk/transport/transport.h"

/* name, bytes, text */
#define RG__TYPES(X)                                                           \
    X(U8, 1, "u8")                                                             \
    X(I32, 4, "i32")                                                           \
    X(I64, 8, "i64")                                                           \
    X(F32, 4, "f32")                                                           \
    X(F64, 8, "f64")                                                           \
    X(I8, 1, "i8")                                                             \
    X(U32, 4, "u32")                                                           \
    X(U64, 8, "u64")                                                           \
    X(F16, 2, "f16")                                                           \
    X(BF16, 2, "bf16")                                                         \
    X(BOOL, 1, "bool")                                                         \
    X(F32_I32, 8, "f32_i32")                                                   \
    X(F64_I32, 16, "f64_i32")                                                  \
    X(I32_I32, 8, "i32_i32")                                                   \
    X(I64_I32, 16, "i64_i32")                                                  \
    X(F32_F32, 8, "f32_f32")                                                   \
    X(F64_F64, 16, "f64_f64")

#define RG__OPS(X)                                                             \
    X(SUM, "sum")                                                              \
    X(AVG, "avg")                                                              \
    X(MIN, "min")                                                              \
    X(MAX, "max")                                                              \
    X(PROD, "prod")                                                            \
    X(LAND, "land")                                                            \
    X(LOR, "lor")                                                              \
    X(LXOR, "lxor")                                                            \
    X(BAND, "band")                                                            \
    X(BOR, "bor")                                                              \
    X(BXOR, "bxor")                                                            \
    X(MINLOC, "minloc")                                                        \
    X(MAXLOC, "maxloc")

/* Kinds that add up; those of them of which each member keeps a part; and kinds
 * that move data, with a count for each member. */
static inline bool rg__kind_scatters(rg__kind kind)
{
    return kind == RG__REDUCE_SCATTER || kind == RG__REDUCE_SCATTERV;
}

static inline bool rg__kind_adds(rg__kind kind)
{
    return kind == RG__ALLREDUCE || kind == RG__AGREE || kind == RG__REDUCE ||
           rg__kind_scatters(kind);
}

/* Kinds that send a part of the same length to each member. */
static inline bool rg__kind_deals(rg__kind kind)
{
    return kind == RG__REDUCE_SCATTER || kind == RG__SCATTER ||
           kind == RG__ALLTOALL;
}

static inline bool rg__kind_is_uneven(rg__kind kind)
{
    return kind == RG__ALLGATHERV || kind == RG__GATHERV ||
           kind == RG__SCATTERV || kind == RG__ALLTOALLV;
}

/* "?" for an unknown number: a member may have posted anything. */
RG_INNER const char *rg__kind_name(uint64_t kind);
const char *rg__type_name(uint64_t type);
/* A value and an index. */
bool rg__type_is_float(rg_type type);
RG_INNER bool rg__type_is_pair(rg_type type);
const char *rg__op_name(uint64_t op);

#endif
