#include "sdk/transport/names.h"

#include "sdk/base/record.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const struct {
    const char *name;
    size_t bytes;
} types[] = {
#define X(type, bytes, text) [RG_##type] = {text, bytes},
    RG__TYPES(X)
#undef X
};

static const char *const ops[] = {
#define X(op, text) [RG_##op] = text,
    RG__OPS(X)
#undef X
};

static const char *const kinds[RG__COLL_KINDS] = {"?",
#define X(kind, text) [RG__##kind] = text,
                                                  RG__COLLS(X)
#undef X
};

const char *rg__kind_name(uint64_t kind)
{
    if (kind == RG__OP_SEND)
        return "send";
    if (kind == RG__OP_RECV)
        return "recv";
    return kind < COUNT(kinds) ? kinds[kind] : "?";
}

const char *rg__type_name(uint64_t type)
{
    return type < COUNT(types) ? types[type].name : "?";
}

const char *rg__op_name(uint64_t op)
{
    return op < COUNT(ops) ? ops[op] : "?";
}

size_t rg_type_size(rg_type type)
{
    return (size_t)type < COUNT(types) ? types[type].bytes : 0;
}

bool rg__type_is_float(rg_type type)
{
    return type == RG_F16 || type == RG_BF16 || type == RG_F32 ||
           type == RG_F64;
}

bool rg__type_is_pair(rg_type type)
{
    return type >= RG_F32_I32 && type <= RG_F64_F64;
}

int rg_op_has(rg_op op, rg_type type)
{
    if (rg_type_size(type) == 0)
        return 0;
    if (rg__type_is_pair(type))
        return op == RG_MINLOC || op == RG_MAXLOC;
    if (op == RG_MIN || op == RG_MAX)
        return 1;
    if (op >= RG_LAND && op <= RG_BXOR)
        return !rg__type_is_float(type);
    return (op == RG_SUM || op == RG_AVG || op == RG_PROD) && type != RG_BOOL;
}
