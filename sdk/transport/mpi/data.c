/* The stages of each kind: how it is said in MPI, which counts in int and has
 * no AVG. Reductions go in chunks; what only moves goes as one element of a
 * type that is long enough. */
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/transport/mpi/comm.h"

#define CHUNK ((uint64_t)1 << 30) /* elements of one call */

static MPI_Datatype type_of(rg_type type)
{
    switch (type) {
    case RG_U8:
        return MPI_UINT8_T;
    case RG_I32:
        return MPI_INT32_T;
    case RG_I64:
        return MPI_INT64_T;
    case RG_F32:
        return MPI_FLOAT;
    case RG_F64:
        return MPI_DOUBLE;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op op_of(rg_op op)
{
    switch (op) {
    case RG_SUM:
        return MPI_SUM;
    case RG_MIN:
        return MPI_MIN;
    case RG_MAX:
        return MPI_MAX;
    default:
        return MPI_OP_NULL;
    }
}

static rg_status posted(const char *call, int code)
{
    const rg_status st = rg__mpi_status(call, code);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static rg_status done(comm *c)
{
    (void)c;
    return RG_OK;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static char *place(void *base, const comm *c, uint64_t element)
{
    return (char *)base + element * rg_type_size(c->coll.type);
}

/* ---------------------------------------------------------------- reductions
 */

static rg_status allreduce(comm *c)
{
    rg__coll *coll = &c->coll;
    c->at += c->part;
    if (c->at == coll->count)
        return RG_OK;
    c->part = at_most(coll->count - c->at, CHUNK);
    const char *send =
        (const char *)coll->send + c->at * rg_type_size(coll->type);
    return posted("MPI_Iallreduce",
                  MPI_Iallreduce(coll->send == coll->recv ? MPI_IN_PLACE : send,
                                 place(coll->recv, c, c->at), (int)c->part,
                                 type_of(coll->type), op_of(coll->op), c->mpi,
                                 &c->request));
}

/* ------------------------------------------------------------------ moving */

static rg_status broadcast(comm *c)
{
    c->at += c->part;
    if (c->at == c->coll.count)
        return RG_OK;
    c->part = at_most(c->coll.count - c->at, CHUNK);
    return posted("MPI_Ibcast", MPI_Ibcast(place(c->coll.recv, c, c->at),
                                           (int)c->part, type_of(c->coll.type),
                                           c->coll.root, c->mpi, &c->request));
}

/* count elements as one of the type *long_p, which is to be freed. */
static rg_status make_long(rg_type type, uint64_t count, MPI_Datatype *long_p)
{
    const int blocks = (int)(count / CHUNK), rest = (int)(count % CHUNK);
    MPI_Datatype run, body, types[2];
    rg_status st =
        rg__mpi_status("MPI_Type_contiguous",
                       MPI_Type_contiguous((int)CHUNK, type_of(type), &run));
    if (st != RG_OK)
        return st;
    MPI_Type_contiguous(blocks, run, &body);
    types[0] = body;
    types[1] = type_of(type);
    const int lengths[2] = {1, rest};
    const MPI_Aint at[2] = {
        0, (MPI_Aint)((uint64_t)blocks * CHUNK * rg_type_size(type))};
    st = rg__mpi_status("MPI_Type_create_struct",
                        MPI_Type_create_struct(2, lengths, at, types, long_p));
    MPI_Type_free(&body);
    MPI_Type_free(&run);
    if (st == RG_OK)
        MPI_Type_commit(long_p);
    return st;
}

static rg_status allgather_as(comm *c, bool is_in_place, int count,
                              MPI_Datatype type)
{
    c->stage = done;
    return posted("MPI_Iallgather",
                  MPI_Iallgather(is_in_place ? MPI_IN_PLACE : c->coll.send,
                                 count, type, c->coll.recv, count, type, c->mpi,
                                 &c->request));
}

static rg_status allgather(comm *c)
{
    rg__coll *coll = &c->coll;
    if (coll->count == 0)
        return RG_OK;
    char *own = place(coll->recv, c, (uint64_t)c->rank * coll->count);
    const bool is_in_place = coll->send == coll->recv || coll->send == own;
    if (is_in_place && coll->send != own)
        memmove(own, coll->send, coll->count * rg_type_size(coll->type));
    if (coll->count <= CHUNK)
        return allgather_as(c, is_in_place, (int)coll->count,
                            type_of(coll->type));
    MPI_Datatype whole;
    rg_status st = make_long(coll->type, coll->count, &whole);
    if (st != RG_OK)
        return st;
    st = allgather_as(c, is_in_place, 1, whole);
    MPI_Type_free(&whole);
    return st;
}

static rg_status barrier(comm *c)
{
    c->stage = done;
    return posted("MPI_Ibarrier", MPI_Ibarrier(c->mpi, &c->request));
}

stage_fn rg__mpi_first_stage(const comm *c)
{
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
        return allreduce;
    case RG__BROADCAST:
        return broadcast;
    case RG__ALLGATHER:
        return allgather;
    default:
        return barrier;
    }
}
