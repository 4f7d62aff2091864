#include "regroup/regroup.h"

size_t rg_type_size(rg_type type)
{
    switch (type) {
    case RG_U8:
    case RG_I8:
    case RG_BOOL:
        return 1;
    case RG_F16:
    case RG_BF16:
        return 2;
    case RG_I32:
    case RG_U32:
    case RG_F32:
        return 4;
    case RG_I64:
    case RG_U64:
    case RG_F64:
        return 8;
    }
    return 0;
}

static int is_float(rg_type type)
{
    return type == RG_F16 || type == RG_BF16 || type == RG_F32 ||
           type == RG_F64;
}

int rg_op_has(rg_op op, rg_type type)
{
    if (rg_type_size(type) == 0)
        return 0;
    switch (op) {
    case RG_SUM:
    case RG_AVG:
    case RG_PROD:
        return type != RG_BOOL;
    case RG_MIN:
    case RG_MAX:
        return 1;
    case RG_LAND:
    case RG_LOR:
    case RG_LXOR:
    case RG_BAND:
    case RG_BOR:
    case RG_BXOR:
        return !is_float(type);
    }
    return 0;
}
