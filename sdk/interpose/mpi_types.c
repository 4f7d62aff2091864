/* MPI's predefined types and ops as those of native, for reductions. The rest
 * goes to MPI: complex and long double, 16 bits, and the program's types and
 * ops. */
#include "sdk/interpose/interpose.h"

#include "regroup/regroup.h"

/* Which ops a type has in MPI. */
typedef enum numbers {
    SIGNED,
    UNSIGNED,
    FLOATING,
    LOGICAL,
    BYTES,
    PAIRS
} numbers;

#define MOST 40

static struct known_type {
    MPI_Datatype type;
    rg_type native;
    numbers sort;
} types[MOST];
static int n_types;

static bool native_of(numbers sort, int bytes, rg_type *native_p)
{
    static const struct {
        numbers sort;
        int bytes;
        rg_type native;
    } all[] = {{SIGNED, 1, RG_I8},    {SIGNED, 4, RG_I32},
               {SIGNED, 8, RG_I64},   {UNSIGNED, 1, RG_U8},
               {UNSIGNED, 4, RG_U32}, {UNSIGNED, 8, RG_U64},
               {FLOATING, 4, RG_F32}, {FLOATING, 8, RG_F64},
               {LOGICAL, 1, RG_BOOL}, {BYTES, 1, RG_U8}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].sort == sort && all[i].bytes == bytes) {
            *native_p = all[i].native;
            return true;
        }
    return false;
}

static void know(MPI_Datatype type, numbers sort)
{
    int bytes = 0;
    rg_type native;
    if (type == MPI_DATATYPE_NULL || n_types == MOST ||
        PMPI_Type_size(type, &bytes) != MPI_SUCCESS ||
        !native_of(sort, bytes, &native))
        return;
    types[n_types++] = (struct known_type){type, native, sort};
}

/* A pair lies in memory as native's does. */
static void know_pair(MPI_Datatype type, rg_type native)
{
    MPI_Aint lower, extent;
    if (type != MPI_DATATYPE_NULL && n_types < MOST &&
        PMPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS &&
        lower == 0 && (size_t)extent == rg_type_size(native))
        types[n_types++] = (struct known_type){type, native, PAIRS};
}

/* The most used come first. How MPI was built decides Fortran's sizes. */
void rg__types_begin(void)
{
    n_types = 0;
    const MPI_Datatype floats[] = {MPI_DOUBLE, MPI_FLOAT};
    const MPI_Datatype fortran_floats[] = {MPI_DOUBLE_PRECISION, MPI_REAL,
                                           MPI_REAL4, MPI_REAL8};
    const MPI_Datatype integers[] = {
        MPI_INT,     MPI_LONG,     MPI_LONG_LONG, MPI_INT32_T, MPI_INT64_T,
        MPI_INT8_T,  MPI_AINT,     MPI_OFFSET,    MPI_COUNT,   MPI_SIGNED_CHAR,
        MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER4,  MPI_INTEGER8};
    const MPI_Datatype cardinals[] = {
        MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UINT64_T,          MPI_UINT32_T,
        MPI_UINT8_T,  MPI_UNSIGNED_CHAR, MPI_UNSIGNED_LONG_LONG};
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
        know(floats[i], FLOATING);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        know(integers[i], SIGNED);
    for (size_t i = 0; i < sizeof fortran_floats / sizeof *fortran_floats; i++)
        know(fortran_floats[i], FLOATING);
    for (size_t i = 0; i < sizeof cardinals / sizeof *cardinals; i++)
        know(cardinals[i], UNSIGNED);
    know(MPI_C_BOOL, LOGICAL);
    know(MPI_BYTE, BYTES);
    know_pair(MPI_DOUBLE_INT, RG_F64_I32);
    know_pair(MPI_FLOAT_INT, RG_F32_I32);
    know_pair(MPI_2INT, RG_I32_I32);
    know_pair(MPI_LONG_INT, RG_I64_I32);
    know_pair(MPI_2DOUBLE_PRECISION, RG_F64_F64);
    know_pair(MPI_2REAL, RG_F32_F32);
    know_pair(MPI_2INTEGER, RG_I32_I32);
}

static bool op_of(MPI_Op op, rg_op *op_p)
{
    const struct {
        MPI_Op op;
        rg_op native;
    } ops[] = {
        {MPI_SUM, RG_SUM},   {MPI_MAX, RG_MAX},       {MPI_MIN, RG_MIN},
        {MPI_PROD, RG_PROD}, {MPI_LAND, RG_LAND},     {MPI_LOR, RG_LOR},
        {MPI_LXOR, RG_LXOR}, {MPI_BAND, RG_BAND},     {MPI_BOR, RG_BOR},
        {MPI_BXOR, RG_BXOR}, {MPI_MINLOC, RG_MINLOC}, {MPI_MAXLOC, RG_MAXLOC}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (ops[i].op == op) {
            *op_p = ops[i].native;
            return true;
        }
    return false;
}

static bool goes_with(rg_op op, numbers sort)
{
    if (sort == PAIRS || op == RG_MINLOC || op == RG_MAXLOC)
        return sort == PAIRS && (op == RG_MINLOC || op == RG_MAXLOC);
    const bool is_logical = op == RG_LAND || op == RG_LOR || op == RG_LXOR;
    const bool is_bitwise = op == RG_BAND || op == RG_BOR || op == RG_BXOR;
    switch (sort) {
    case FLOATING:
        return !is_logical && !is_bitwise;
    case LOGICAL:
        return is_logical;
    case BYTES:
        return is_bitwise;
    default:
        return true;
    }
}

bool rg__types_find(MPI_Datatype type, MPI_Op op, rg_type *type_p, rg_op *op_p)
{
    if (!op_of(op, op_p))
        return false;
    for (int i = 0; i < n_types; i++)
        if (types[i].type == type) {
            *type_p = types[i].native;
            return goes_with(*op_p, types[i].sort);
        }
    return false;
}

bool rg__types_bytes(MPI_Count count, MPI_Datatype type, uint64_t *bytes_p)
{
    MPI_Count bytes = 0;
    if (count < 0 || type == MPI_DATATYPE_NULL ||
        PMPI_Type_size_x(type, &bytes) != MPI_SUCCESS || bytes < 0)
        return false;
    *bytes_p = (uint64_t)count * (uint64_t)bytes;
    return true;
}

bool rg__types_is_dense(MPI_Datatype type)
{
    int integers, addresses, inner, combiner, bytes;
    MPI_Aint lower, extent;
    if (PMPI_Type_get_envelope(type, &integers, &addresses, &inner,
                               &combiner) != MPI_SUCCESS ||
        combiner != MPI_COMBINER_NAMED)
        return false;
    return PMPI_Type_size(type, &bytes) == MPI_SUCCESS &&
           PMPI_Type_get_extent(type, &lower, &extent) == MPI_SUCCESS &&
           lower == 0 && extent == bytes;
}
