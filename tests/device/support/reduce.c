/* Types and operators of the stand-in: one rank after another, rounded to the
 * type after each step, as on a ring. */
#include "tests/device/support/comm.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/transport/half.h"

size_t fake_type_size(int type)
{
    switch (type) {
    case RG__NCCL_Int8:
    case RG__NCCL_Uint8:
        return 1;
    case RG__NCCL_Float16:
    case RG__NCCL_Bfloat16:
        return 2;
    case RG__NCCL_Int32:
    case RG__NCCL_Uint32:
    case RG__NCCL_Float32:
        return 4;
    case RG__NCCL_Int64:
    case RG__NCCL_Uint64:
    case RG__NCCL_Float64:
        return 8;
    default:
        return 0;
    }
}

/* into = into op part; calc: a type in which sums and products may overflow. */
#define FOLD(name, type, calc)                                                 \
    static void fold_##name(type *into, const type *part, size_t n, int op)    \
    {                                                                          \
        for (size_t i = 0; i < n; i++) {                                       \
            const type a = into[i], b = part[i];                               \
            switch (op) {                                                      \
            case RG__NCCL_Prod:                                                \
                into[i] = (type)((calc)a * (calc)b);                           \
                break;                                                         \
            case RG__NCCL_Max:                                                 \
                into[i] = a > b ? a : b;                                       \
                break;                                                         \
            case RG__NCCL_Min:                                                 \
                into[i] = a < b ? a : b;                                       \
                break;                                                         \
            default:                                                           \
                into[i] = (type)((calc)a + (calc)b);                           \
            }                                                                  \
        }                                                                      \
    }
FOLD(i8, int8_t, uint32_t)
FOLD(u8, uint8_t, uint32_t)
FOLD(i32, int32_t, uint32_t)
FOLD(u32, uint32_t, uint32_t)
FOLD(i64, int64_t, uint64_t)
FOLD(u64, uint64_t, uint64_t)
FOLD(f32, float, float)
FOLD(f64, double, double)

static rg_type half_type(int type)
{
    return type == RG__NCCL_Float16 ? RG_F16 : RG_BF16;
}

static void fold_half(int type, uint16_t *into, const uint16_t *part, size_t n,
                      int op)
{
    for (size_t i = 0; i < n; i++) {
        float a, b;
        rg__half_widen(half_type(type), &a, &into[i], 1);
        rg__half_widen(half_type(type), &b, &part[i], 1);
        fold_f32(&a, &b, 1, op);
        rg__half_narrow(half_type(type), &into[i], &a, 1);
    }
}

static void fold(int type, void *into, const void *part, size_t n, int op)
{
    switch (type) {
    case RG__NCCL_Int8:
        return fold_i8(into, part, n, op);
    case RG__NCCL_Uint8:
        return fold_u8(into, part, n, op);
    case RG__NCCL_Int32:
        return fold_i32(into, part, n, op);
    case RG__NCCL_Uint32:
        return fold_u32(into, part, n, op);
    case RG__NCCL_Int64:
        return fold_i64(into, part, n, op);
    case RG__NCCL_Uint64:
        return fold_u64(into, part, n, op);
    case RG__NCCL_Float32:
        return fold_f32(into, part, n, op);
    case RG__NCCL_Float64:
        return fold_f64(into, part, n, op);
    default:
        return fold_half(type, into, part, n, op);
    }
}

/* ----------------------------------------------------------------- the average
 */

#define DIVIDE(name, type)                                                     \
    static void divide_##name(type *into, size_t n, int ranks)                 \
    {                                                                          \
        for (size_t i = 0; i < n; i++)                                         \
            into[i] = (type)(into[i] / (type)ranks);                           \
    }
DIVIDE(i8, int8_t)
DIVIDE(u8, uint8_t)
DIVIDE(i32, int32_t)
DIVIDE(u32, uint32_t)
DIVIDE(i64, int64_t)
DIVIDE(u64, uint64_t)

/* Integers: the sum is divided. */
static void divide(int type, void *into, size_t n, int ranks)
{
    switch (type) {
    case RG__NCCL_Int8:
        return divide_i8(into, n, ranks);
    case RG__NCCL_Uint8:
        return divide_u8(into, n, ranks);
    case RG__NCCL_Int32:
        return divide_i32(into, n, ranks);
    case RG__NCCL_Uint32:
        return divide_u32(into, n, ranks);
    case RG__NCCL_Int64:
        return divide_i64(into, n, ranks);
    case RG__NCCL_Uint64:
        return divide_u64(into, n, ranks);
    default:
        return;
    }
}

/* Others: each part is multiplied by 1/ranks, rounded to the type. */
static void fill_factor(int type, void *factor, size_t n, int ranks)
{
    const double exact = 1.0 / ranks;
    const float single = 1.0f / (float)ranks;
    uint16_t half = 0;
    if (type == RG__NCCL_Float16 || type == RG__NCCL_Bfloat16)
        rg__half_narrow(half_type(type), &half, &single, 1);
    for (size_t i = 0; i < n; i++) {
        if (type == RG__NCCL_Float64)
            ((double *)factor)[i] = exact;
        else if (type == RG__NCCL_Float32)
            ((float *)factor)[i] = single;
        else
            ((uint16_t *)factor)[i] = half;
    }
}

static bool is_integer(int type)
{
    return type < RG__NCCL_Float16;
}

static void scale_parts(char *const *part, int parts, size_t n, int type)
{
    void *factor = malloc(n * fake_type_size(type) + 1);
    fill_factor(type, factor, n, parts);
    for (int r = 0; r < parts; r++)
        fold(type, part[r], factor, n, RG__NCCL_Prod);
    free(factor);
}

void fake_reduce(void *into, char *const *part, int parts, size_t n, int type,
                 int op)
{
    if (op == RG__NCCL_Avg && !is_integer(type))
        scale_parts(part, parts, n, type);
    for (int r = 1; r < parts; r++)
        fold(type, part[0], part[r], n, op);
    if (op == RG__NCCL_Avg && is_integer(type))
        divide(type, part[0], n, parts);
    memcpy(into, part[0], n * fake_type_size(type));
}
