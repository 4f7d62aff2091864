#include "regroup/regroup.h"

size_t rg_type_size(rg_type type)
{
    switch (type) {
    case RG_U8:
        return 1;
    case RG_I32:
    case RG_F32:
        return 4;
    case RG_I64:
    case RG_F64:
        return 8;
    }
    return 0;
}
