/* Which elements go between two members, and as which type of MPI. */
#include "sdk/base/fail.h"
#include "sdk/transport/mpi/mpi_comm.h"

MPI_Datatype rg__mpi_type(rg_type type)
{
    switch (type) {
    case RG_U8:
    case RG_BOOL:
        return MPI_UINT8_T;
    case RG_I8:
        return MPI_INT8_T;
    case RG_I32:
        return MPI_INT32_T;
    case RG_U32:
        return MPI_UINT32_T;
    case RG_I64:
        return MPI_INT64_T;
    case RG_U64:
        return MPI_UINT64_T;
    case RG_F32:
        return MPI_FLOAT;
    case RG_F64:
        return MPI_DOUBLE;
    case RG_F16:
    case RG_BF16:
        return MPI_UINT16_T;
    case RG_F32_I32:
    case RG_I32_I32:
    case RG_F32_F32:
        return MPI_UINT64_T;
    case RG_F64_I32:
    case RG_I64_I32:
    case RG_F64_F64:
        return MPI_C_DOUBLE_COMPLEX;
    }
    return MPI_DATATYPE_NULL;
}

MPI_Datatype rg__mpi_reduced_type(rg_type type)
{
    switch (type) {
    case RG_F32_I32:
        return MPI_FLOAT_INT;
    case RG_F64_I32:
        return MPI_DOUBLE_INT;
    case RG_I32_I32:
        return MPI_2INT;
    case RG_I64_I32:
        return MPI_LONG_INT;
    case RG_F32_F32:
        return MPI_2REAL;
    case RG_F64_F64:
        return MPI_2DOUBLE_PRECISION;
    default:
        return rg__mpi_type(type);
    }
}

static rg__elements part_of(const uint64_t *counts, const uint64_t *places,
                            uint64_t count, int r)
{
    if (counts == NULL)
        return (rg__elements){(uint64_t)r * count, count};
    return (rg__elements){places[r], counts[r]};
}

static rg__elements all_of(uint64_t count)
{
    return (rg__elements){0, count};
}

/* Of an alltoall that sends from a copy, where parts follow one another. */
rg__elements rg__elements_packed(const rg__mpi *c, int r)
{
    const rg__coll *o = &c->coll;
    uint64_t at = 0;
    for (int q = 0; q < r; q++)
        at += part_of(o->send_counts, o->send_places, o->count, q).count;
    return (rg__elements){
        at, part_of(o->send_counts, o->send_places, o->count, r).count};
}

/* What this rank sends to rank r. */
rg__elements rg__elements_to(const rg__mpi *c, int r)
{
    const rg__coll *o = &c->coll;
    const bool is_root = c->rank == o->root;
    if (c->is_packed)
        return rg__elements_packed(c, r);
    switch (o->kind) {
    case RG__ALLGATHER:
    case RG__ALLGATHERV:
        return all_of(o->count);
    case RG__BROADCAST:
        return all_of(is_root && r != o->root ? o->count : 0);
    case RG__GATHER:
    case RG__GATHERV:
        return all_of(r == o->root ? o->count : 0);
    case RG__SCATTER:
    case RG__SCATTERV:
        return is_root ? part_of(o->send_counts, o->send_places, o->count, r)
                       : all_of(0);
    default:
        return part_of(o->send_counts, o->send_places, o->count, r);
    }
}

/* What it receives from rank r. */
rg__elements rg__elements_from(const rg__mpi *c, int r)
{
    const rg__coll *o = &c->coll;
    const bool is_root = c->rank == o->root;
    switch (o->kind) {
    case RG__GATHER:
    case RG__GATHERV:
        return is_root ? part_of(o->recv_counts, o->recv_places, o->count, r)
                       : all_of(0);
    case RG__BROADCAST:
        return all_of(r == o->root && !is_root ? o->count : 0);
    case RG__SCATTER:
    case RG__SCATTERV:
        return all_of(r == o->root ? o->count : 0);
    default:
        return part_of(o->recv_counts, o->recv_places, o->count, r);
    }
}

rg_status rg__elements_differ(const rg__mpi *c, rg__kind kind,
                              const rg__pair *p)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "%s on %s: rank %d sends %llu elements to rank %d, "
                    "which expects %llu; give the same count on both",
                    rg__kind_name(kind), rg__set_words(c->id).text, p->from,
                    (unsigned long long)p->sends, p->to,
                    (unsigned long long)p->expects);
}
