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

/* In place, the part of a reduce_scatter lies at the start of recv in MPI, and
 * at its own place in native. */
static int reduction(rg__kind kind, int root, const void *send, void *recv,
                     MPI_Count count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm comm)
{
    const bool is_in_place = send == MPI_IN_PLACE;
    facts f = find_reduction(
        (rg__coll){.kind = kind, .root = root, .send = send, .recv = recv},
        count, type, op, comm);
    if (passes(&f))
        return PASSED;
    const void *from = is_in_place ? recv : send;
    return has_gaps(&f, type) || (is_in_place && kind == RG__REDUCE_SCATTER)
               ? carry_aside(&f, from, recv, type)
               : carry(&f, from, recv);
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

/* An allgather, in which a rank sends one part, or an alltoall. */
static int all_to_all(rg__kind kind, const void *send, MPI_Count send_count,
                      MPI_Datatype send_type, void *recv, MPI_Count recv_count,
                      MPI_Datatype recv_type, MPI_Comm comm)
{
    rg__packed from = {0}, into = {0};
    const bool is_gather = kind == RG__ALLGATHER;
    facts f = find((rg__coll){.kind = kind, .send = send, .recv = recv},
                   recv_count, recv_type, comm);
    if (passes(&f))
        return PASSED;
    if (send == MPI_IN_PLACE) {
        send = is_gather ? element(recv, f.set->rank * recv_count, recv_type)
                         : recv;
        send_count = recv_count;
        send_type = recv_type;
    }
    int code = rg__packed_from(&from, send,
                               is_gather ? send_count : f.set->n * send_count,
                               send_type, comm);
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

#define CALL(name, parameters, arguments, mine)                                \
    int MPI_##name parameters                                                  \
    {                                                                          \
        const int code = mine;                                                 \
        return code == PASSED ? PMPI_##name arguments : code;                  \
    }

#define CALLS(suffix, integer)                                                 \
    CALL(Allreduce##suffix,                                                    \
         (const void *send, void *recv, integer n, MPI_Datatype type,          \
          MPI_Op op, MPI_Comm comm),                                           \
         (send, recv, n, type, op, comm),                                      \
         reduction(RG__ALLREDUCE, 0, send, recv, n, type, op, comm))           \
    CALL(Reduce##suffix,                                                       \
         (const void *send, void *recv, integer n, MPI_Datatype type,          \
          MPI_Op op, int root, MPI_Comm comm),                                 \
         (send, recv, n, type, op, root, comm),                                \
         reduction(RG__REDUCE, root, send, recv, n, type, op, comm))           \
    CALL(Reduce_scatter_block##suffix,                                         \
         (const void *send, void *recv, integer n, MPI_Datatype type,          \
          MPI_Op op, MPI_Comm comm),                                           \
         (send, recv, n, type, op, comm),                                      \
         reduction(RG__REDUCE_SCATTER, 0, send, recv, n, type, op, comm))      \
    CALL(Bcast##suffix,                                                        \
         (void *data, integer n, MPI_Datatype type, int root, MPI_Comm comm),  \
         (data, n, type, root, comm), broadcast(data, n, type, root, comm))    \
    CALL(Allgather##suffix,                                                    \
         (const void *send, integer n, MPI_Datatype type, void *recv,          \
          integer recv_n, MPI_Datatype recv_type, MPI_Comm comm),              \
         (send, n, type, recv, recv_n, recv_type, comm),                       \
         all_to_all(RG__ALLGATHER, send, n, type, recv, recv_n, recv_type,     \
                    comm))                                                     \
    CALL(Alltoall##suffix,                                                     \
         (const void *send, integer n, MPI_Datatype type, void *recv,          \
          integer recv_n, MPI_Datatype recv_type, MPI_Comm comm),              \
         (send, n, type, recv, recv_n, recv_type, comm),                       \
         all_to_all(RG__ALLTOALL, send, n, type, recv, recv_n, recv_type,      \
                    comm))                                                     \
    CALL(Gather##suffix,                                                       \
         (const void *send, integer n, MPI_Datatype type, void *recv,          \
          integer recv_n, MPI_Datatype recv_type, int root, MPI_Comm comm),    \
         (send, n, type, recv, recv_n, recv_type, root, comm),                 \
         gather((side){send, n, type}, (side){recv, recv_n, recv_type}, root,  \
                comm))                                                         \
    CALL(Scatter##suffix,                                                      \
         (const void *send, integer n, MPI_Datatype type, void *recv,          \
          integer recv_n, MPI_Datatype recv_type, int root, MPI_Comm comm),    \
         (send, n, type, recv, recv_n, recv_type, root, comm),                 \
         scatter((side){recv, recv_n, recv_type}, (side){send, n, type}, root, \
                 comm))

CALLS(, int)
#if MPI_VERSION >= 4
CALLS(_c, MPI_Count)
#endif
