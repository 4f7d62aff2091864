/* The calls of MPI that are interposed. Each asks whether native carries it,
 * from equal facts alone, and else makes the same call of MPI. */
#include "sdk/interpose/interpose.h"

#include <stdlib.h>
#include <string.h>

/* A call, as all its ranks see it. */
typedef struct facts {
    rg__native_set *set; /* NULL: it goes to MPI */
    rg__coll coll;
    MPI_Comm comm;
} facts;

#define PASSED (-1) /* to MPI, which has no negative code */

/* What costs least is asked first: a call that MPI keeps is not to be slower.
 * MPI packs by int, so the data of all ranks together must fit. */
static rg__native_set *find_set(const rg__coll *o, uint64_t bytes,
                                MPI_Comm comm)
{
    rg__native_set *set =
        rg__choice_has(o->kind, bytes) ? rg__native_set_of(comm, o) : NULL;
    return set != NULL && rg__choice_suits(o->kind, set->n) &&
                   bytes <= INT32_MAX / (uint64_t)set->n
               ? set
               : NULL;
}

/* coll has kind, root and the program's buffers; count elements are what one
 * rank gives to another. */
static facts find(rg__coll coll, MPI_Count count, MPI_Datatype type,
                  MPI_Comm comm)
{
    uint64_t bytes = 0;
    facts f = {.comm = comm, .coll = coll};
    f.coll.type = RG_U8;
    if (rg__types_bytes(count, type, &bytes) && bytes > 0)
        f.set = find_set(&f.coll, bytes, comm);
    f.coll.count = bytes;
    return f;
}

static facts find_reduction(rg__coll coll, MPI_Count count, MPI_Datatype type,
                            MPI_Op op, MPI_Comm comm)
{
    uint64_t bytes = 0;
    facts f = {.comm = comm, .coll = coll};
    f.coll.count = (uint64_t)count;
    if (rg__types_bytes(count, type, &bytes) && bytes > 0 &&
        rg__types_find(type, op, &f.coll.type, &f.coll.op))
        f.set = find_set(&f.coll, bytes, comm);
    return f;
}

/* Tell whether it goes to MPI. */
static bool passes(const facts *f)
{
    const rg__kind kind = f->coll.kind;
    if (f->set == NULL && (rg__chosen_here.on >> kind & 1) != 0)
        rg__interpose_count(kind, false);
    return f->set == NULL;
}

static int carry(facts *f, const void *send, void *recv)
{
    f->coll.send = send;
    f->coll.recv = recv;
    return rg__carry(f->set, f->comm, &f->coll);
}

/* From bytes to bytes, either of which may have to be packed. */
static int carry_packed(facts *f, rg__packed *send, rg__packed *recv, int code)
{
    if (code == MPI_SUCCESS)
        code = carry(f, send->at, recv->at);
    rg__packed_end(send, code, f->comm);
    return rg__packed_end(recv, code, f->comm);
}

static void *element(const void *p, MPI_Count i, MPI_Datatype type)
{
    MPI_Aint lower, extent = 0;
    PMPI_Type_get_extent(type, &lower, &extent);
    return (char *)(uintptr_t)p + (MPI_Aint)i * extent;
}

/* -------------------------------------------------------------- reductions */

/* MPI's elements have gaps, where the program's bytes stay. */
static bool has_gaps(const facts *f, MPI_Datatype type)
{
    int bytes = 0;
    PMPI_Type_size(type, &bytes);
    return (size_t)bytes != rg_type_size(f->coll.type);
}

/* Of count elements, what MPI has of each. */
static void copy_elements(const facts *f, void *to, const void *from,
                          MPI_Datatype type)
{
    const size_t step = rg_type_size(f->coll.type);
    const size_t all = (size_t)f->coll.count * step;
    int bytes = 0;
    PMPI_Type_size(type, &bytes);
    if (!has_gaps(f, type)) {
        memcpy(to, from, all);
        return;
    }
    for (size_t at = 0; at < all; at += step)
        memcpy((char *)to + at, (const char *)from + at, (size_t)bytes);
}

/* By way of other memory. */
static int carry_aside(facts *f, const void *send, void *recv,
                       MPI_Datatype type)
{
    const bool has_result =
        f->coll.kind != RG__REDUCE || f->set->rank == f->coll.root;
    void *result =
        malloc((size_t)f->coll.count * rg_type_size(f->coll.type) + 1);
    if (result == NULL) {
        PMPI_Comm_call_errhandler(f->comm, MPI_ERR_NO_MEM);
        return MPI_ERR_NO_MEM;
    }
    const int code = carry(f, send, result);
    if (code == MPI_SUCCESS && has_result)
        copy_elements(f, recv, result, type);
    free(result);
    return code;
}

static int carry_reduction(facts *f, const void *send, void *recv,
                           MPI_Datatype type)
{
    const void *from = send == MPI_IN_PLACE ? recv : send;
    return has_gaps(f, type) ? carry_aside(f, from, recv, type)
                             : carry(f, from, recv);
}

static int allreduce(const void *send, void *recv, MPI_Count count,
                     MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    facts f = find_reduction(
        (rg__coll){.kind = RG__ALLREDUCE, .send = send, .recv = recv}, count,
        type, op, comm);
    if (passes(&f))
        return PASSED;
    return carry_reduction(&f, send, recv, type);
}

static int reduce(const void *send, void *recv, MPI_Count count,
                  MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    facts f = find_reduction(
        (rg__coll){
            .kind = RG__REDUCE, .root = root, .send = send, .recv = recv},
        count, type, op, comm);
    if (passes(&f))
        return PASSED;
    return carry_reduction(&f, send, recv, type);
}

/* MPI's result in place lies at the start of recv, native's at its part. */
static int reduce_scatter(const void *send, void *recv, MPI_Count count,
                          MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    facts f = find_reduction(
        (rg__coll){.kind = RG__REDUCE_SCATTER, .send = send, .recv = recv},
        count, type, op, comm);
    if (passes(&f))
        return PASSED;
    return send == MPI_IN_PLACE ? carry_aside(&f, recv, recv, type)
                                : carry_reduction(&f, send, recv, type);
}

/* ------------------------------------------------------------ moving data */

static int broadcast(void *data, MPI_Count count, MPI_Datatype type, int root,
                     MPI_Comm comm)
{
    rg__packed p;
    facts f =
        find((rg__coll){.kind = RG__BROADCAST, .root = root, .recv = data},
             count, type, comm);
    if (passes(&f))
        return PASSED;
    int code = f.set->rank == root
                   ? rg__packed_from(&p, data, count, type, comm)
                   : rg__packed_into(&p, data, count, type, comm);
    if (code == MPI_SUCCESS)
        code = carry(&f, NULL, p.at);
    return rg__packed_end(&p, code, comm);
}

static int allgather(const void *send, MPI_Count send_count,
                     MPI_Datatype send_type, void *recv, MPI_Count recv_count,
                     MPI_Datatype recv_type, MPI_Comm comm)
{
    rg__packed from = {0}, into = {0};
    facts f =
        find((rg__coll){.kind = RG__ALLGATHER, .send = send, .recv = recv},
             recv_count, recv_type, comm);
    if (passes(&f))
        return PASSED;
    if (send == MPI_IN_PLACE) {
        send = element(recv, f.set->rank * recv_count, recv_type);
        send_count = recv_count;
        send_type = recv_type;
    }
    int code = rg__packed_from(&from, send, send_count, send_type, comm);
    if (code == MPI_SUCCESS)
        code = rg__packed_into(&into, recv, f.set->n * recv_count, recv_type,
                               comm);
    return carry_packed(&f, &from, &into, code);
}

static int alltoall(const void *send, MPI_Count send_count,
                    MPI_Datatype send_type, void *recv, MPI_Count recv_count,
                    MPI_Datatype recv_type, MPI_Comm comm)
{
    rg__packed from = {0}, into = {0};
    facts f = find((rg__coll){.kind = RG__ALLTOALL, .send = send, .recv = recv},
                   recv_count, recv_type, comm);
    if (passes(&f))
        return PASSED;
    if (send == MPI_IN_PLACE) {
        send = recv;
        send_count = recv_count;
        send_type = recv_type;
    }
    int code =
        rg__packed_from(&from, send, f.set->n * send_count, send_type, comm);
    if (code == MPI_SUCCESS)
        code = rg__packed_into(&into, recv, f.set->n * recv_count, recv_type,
                               comm);
    return carry_packed(&f, &from, &into, code);
}

/* What this rank gives to a gather's root, or has from a scatter's; the root
 * in place gives or has what lies in its part of the whole. */
typedef struct side {
    const void *at;
    MPI_Count count;
    MPI_Datatype type;
} side;

static side own_side(side own, side whole, int rank)
{
    if (own.at != MPI_IN_PLACE)
        return own;
    own = whole;
    own.at = element(whole.at, rank * whole.count, whole.type);
    return own;
}

/* The signature is equal on all ranks; the root's own side may be in place, and
 * what others say of the whole means nothing. */
static facts find_rooted(rg__coll coll, side own, side whole, MPI_Comm comm)
{
    const side known = own.at == MPI_IN_PLACE ? whole : own;
    return find(coll, known.count, known.type, comm);
}

static int gather(side own, side whole, int root, MPI_Comm comm)
{
    rg__packed from = {0}, into = {0};
    facts f = find_rooted((rg__coll){.kind = RG__GATHER,
                                     .root = root,
                                     .send = own.at,
                                     .recv = (void *)(uintptr_t)whole.at},
                          own, whole, comm);
    if (passes(&f))
        return PASSED;
    const side mine = own_side(own, whole, f.set->rank);
    int code = rg__packed_from(&from, mine.at, mine.count, mine.type, comm);
    if (code == MPI_SUCCESS && f.set->rank == root)
        code = rg__packed_into(&into, (void *)(uintptr_t)whole.at,
                               f.set->n * whole.count, whole.type, comm);
    return carry_packed(&f, &from, &into, code);
}

static int scatter(side own, side whole, int root, MPI_Comm comm)
{
    rg__packed from = {0}, into = {0};
    facts f = find_rooted((rg__coll){.kind = RG__SCATTER,
                                     .root = root,
                                     .send = whole.at,
                                     .recv = (void *)(uintptr_t)own.at},
                          own, whole, comm);
    if (passes(&f))
        return PASSED;
    int code = MPI_SUCCESS;
    if (f.set->rank == root)
        code = rg__packed_from(&from, whole.at, f.set->n * whole.count,
                               whole.type, comm);
    if (code == MPI_SUCCESS && own.at != MPI_IN_PLACE)
        code = rg__packed_into(&into, (void *)(uintptr_t)own.at, own.count,
                               own.type, comm);
    else if (code == MPI_SUCCESS) /* the root's own part is not written */
        into.at = (char *)from.at + (uint64_t)root * f.coll.count;
    return carry_packed(&f, &from, &into, code);
}

int MPI_Barrier(MPI_Comm comm)
{
    facts f = {.comm = comm, .coll = {.kind = RG__BARRIER}};
    f.set = find_set(&f.coll, 0, comm);
    return passes(&f) ? PMPI_Barrier(comm) : carry(&f, NULL, NULL);
}

/* ------------------------------------------- each with int and with MPI_Count
 */

#define CALLS(suffix, integer)                                                 \
    int MPI_Allreduce##suffix(const void *send, void *recv, integer count,     \
                              MPI_Datatype type, MPI_Op op, MPI_Comm comm)     \
    {                                                                          \
        const int code = allreduce(send, recv, count, type, op, comm);         \
        return code == PASSED                                                  \
                   ? PMPI_Allreduce##suffix(send, recv, count, type, op, comm) \
                   : code;                                                     \
    }                                                                          \
    int MPI_Reduce##suffix(const void *send, void *recv, integer count,        \
                           MPI_Datatype type, MPI_Op op, int root,             \
                           MPI_Comm comm)                                      \
    {                                                                          \
        const int code = reduce(send, recv, count, type, op, root, comm);      \
        return code == PASSED ? PMPI_Reduce##suffix(send, recv, count, type,   \
                                                    op, root, comm)            \
                              : code;                                          \
    }                                                                          \
    int MPI_Reduce_scatter_block##suffix(const void *send, void *recv,         \
                                         integer count, MPI_Datatype type,     \
                                         MPI_Op op, MPI_Comm comm)             \
    {                                                                          \
        const int code = reduce_scatter(send, recv, count, type, op, comm);    \
        return code == PASSED ? PMPI_Reduce_scatter_block##suffix(             \
                                    send, recv, count, type, op, comm)         \
                              : code;                                          \
    }                                                                          \
    int MPI_Bcast##suffix(void *data, integer count, MPI_Datatype type,        \
                          int root, MPI_Comm comm)                             \
    {                                                                          \
        const int code = broadcast(data, count, type, root, comm);             \
        return code == PASSED                                                  \
                   ? PMPI_Bcast##suffix(data, count, type, root, comm)         \
                   : code;                                                     \
    }                                                                          \
    int MPI_Allgather##suffix(                                                 \
        const void *send, integer send_count, MPI_Datatype send_type,          \
        void *recv, integer recv_count, MPI_Datatype recv_type, MPI_Comm comm) \
    {                                                                          \
        const int code = allgather(send, send_count, send_type, recv,          \
                                   recv_count, recv_type, comm);               \
        return code == PASSED                                                  \
                   ? PMPI_Allgather##suffix(send, send_count, send_type, recv, \
                                            recv_count, recv_type, comm)       \
                   : code;                                                     \
    }                                                                          \
    int MPI_Alltoall##suffix(                                                  \
        const void *send, integer send_count, MPI_Datatype send_type,          \
        void *recv, integer recv_count, MPI_Datatype recv_type, MPI_Comm comm) \
    {                                                                          \
        const int code = alltoall(send, send_count, send_type, recv,           \
                                  recv_count, recv_type, comm);                \
        return code == PASSED                                                  \
                   ? PMPI_Alltoall##suffix(send, send_count, send_type, recv,  \
                                           recv_count, recv_type, comm)        \
                   : code;                                                     \
    }                                                                          \
    int MPI_Gather##suffix(const void *send, integer send_count,               \
                           MPI_Datatype send_type, void *recv,                 \
                           integer recv_count, MPI_Datatype recv_type,         \
                           int root, MPI_Comm comm)                            \
    {                                                                          \
        const side own = {send, send_count, send_type};                        \
        const side whole = {recv, recv_count, recv_type};                      \
        const int code = gather(own, whole, root, comm);                       \
        return code == PASSED                                                  \
                   ? PMPI_Gather##suffix(send, send_count, send_type, recv,    \
                                         recv_count, recv_type, root, comm)    \
                   : code;                                                     \
    }                                                                          \
    int MPI_Scatter##suffix(const void *send, integer send_count,              \
                            MPI_Datatype send_type, void *recv,                \
                            integer recv_count, MPI_Datatype recv_type,        \
                            int root, MPI_Comm comm)                           \
    {                                                                          \
        const side own = {recv, recv_count, recv_type};                        \
        const side whole = {send, send_count, send_type};                      \
        const int code = scatter(own, whole, root, comm);                      \
        return code == PASSED                                                  \
                   ? PMPI_Scatter##suffix(send, send_count, send_type, recv,   \
                                          recv_count, recv_type, root, comm)   \
                   : code;                                                     \
    }

CALLS(, int)
#if MPI_VERSION >= 4
CALLS(_c, MPI_Count)
#endif
