#include "tests/bench/collectives/peer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "regroup/regroup_mpi.h"

struct rg__peer {
    MPI_Comm comm;
};

static bool is_ours; /* peer_begin has initialised MPI */

static const struct level {
    const char *name;
    int value;
} levels[] = {{"single", MPI_THREAD_SINGLE},
              {"funneled", MPI_THREAD_FUNNELED},
              {"serialized", MPI_THREAD_SERIALIZED},
              {"multiple", MPI_THREAD_MULTIPLE}};

bool peer_begin(const char *level)
{
    int got = 0;
    if (level == NULL)
        return true;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (strcmp(levels[i].name, level) == 0)
            is_ours = MPI_Init_thread(NULL, NULL, levels[i].value, &got) ==
                          MPI_SUCCESS &&
                      got >= levels[i].value;
    return is_ours;
}

void peer_end(void)
{
    if (is_ours)
        MPI_Finalize();
}

static bool is_up(void)
{
    int is_begun = 0, is_over = 0;
    MPI_Initialized(&is_begun);
    MPI_Finalized(&is_over);
    return is_begun && !is_over;
}

const char *peer_name(rg_ctx *ctx)
{
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int size = 0, length = 0;
    if (!is_up())
        return NULL;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != rg_size(ctx))
        return NULL;
    MPI_Get_library_version(name, &length);
    name[strcspn(name, ",\n")] = '\0';
    for (char *p = name; *p != '\0'; p++)
        *p = *p == '\t' ? ' ' : *p;
    return name;
}

rg__peer *peer_open(rg_set *set)
{
    rg__peer *p = malloc(sizeof *p);
    if (p == NULL || rg_set_mpi_comm(set, &p->comm) != RG_OK) {
        fprintf(stderr, "bench_collectives: a communicator beside %s: %s\n",
                rg_set_name(set), rg_last_error());
        exit(1);
    }
    return p;
}

void peer_close(rg__peer *p)
{
    if (p != NULL)
        MPI_Comm_free(&p->comm);
    free(p);
}

/* MPI_DATATYPE_NULL: MPI has none. Halves can be moved, but not reduced. */
static MPI_Datatype type_of(const work *w)
{
    switch (w->type) {
    case RG_I8:
        return MPI_INT8_T;
    case RG_U8:
    case RG_BOOL:
        return MPI_UINT8_T;
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
        return kind_reduces(w->kind) ? MPI_DATATYPE_NULL : MPI_UINT16_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op op_of(const work *w)
{
    switch (w->redop) {
    case RG_SUM:
        return MPI_SUM;
    case RG_MIN:
        return MPI_MIN;
    case RG_MAX:
        return MPI_MAX;
    case RG_PROD:
        return MPI_PROD;
    case RG_LAND:
        return MPI_LAND;
    case RG_LOR:
        return MPI_LOR;
    case RG_LXOR:
        return MPI_LXOR;
    case RG_BAND:
        return MPI_BAND;
    case RG_BOR:
        return MPI_BOR;
    case RG_BXOR:
        return MPI_BXOR;
    default:
        return MPI_OP_NULL;
    }
}

/* The same on all ranks, whose uneven parts may differ. */
static bool is_int(const work *w)
{
    const uint64_t most = (uint64_t)INT_MAX / 2 / (uint64_t)w->n;
    return w->count <= (kind_has_parts(w->kind) ? most : INT_MAX);
}

bool peer_has(const work *w)
{
    return w->peer != NULL && is_int(w) && type_of(w) != MPI_DATATYPE_NULL &&
           (!kind_reduces(w->kind) || op_of(w) != MPI_OP_NULL);
}

/* The blocking call, or the nonblocking one where there is a request. */
#define EITHER(now, later, ...)                                                \
    (req == NULL ? now(__VA_ARGS__) : later(__VA_ARGS__, req))

static int reduce(const work *w, MPI_Request *req)
{
    const MPI_Datatype type = type_of(w);
    const MPI_Comm comm = w->peer->comm;
    const int count = (int)w->count;
    const bool is_sent = w->kind == REDUCE && w->rank != w->root;
    const void *send = w->in_place && !is_sent ? MPI_IN_PLACE : w->send;
    if (w->kind == ALLREDUCE)
        return EITHER(MPI_Allreduce, MPI_Iallreduce, send, w->recv, count, type,
                      op_of(w), comm);
    if (w->kind == REDUCE)
        return EITHER(MPI_Reduce, MPI_Ireduce, send, w->recv, count, type,
                      op_of(w), w->root, comm);
    return EITHER(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, send,
                  w->in_place ? w->send : w->recv, count, type, op_of(w), comm);
}

static int at_root(const work *w, MPI_Request *req)
{
    const MPI_Datatype type = type_of(w);
    const MPI_Comm comm = w->peer->comm;
    const int count = (int)w->count;
    const bool is_here = w->in_place && w->rank == w->root;
    if (w->kind == GATHER)
        return EITHER(MPI_Gather, MPI_Igather, is_here ? MPI_IN_PLACE : w->send,
                      count, type, w->recv, count, type, w->root, comm);
    if (w->kind == SCATTER)
        return EITHER(MPI_Scatter, MPI_Iscatter, w->send, count, type,
                      is_here ? MPI_IN_PLACE : w->recv, count, type, w->root,
                      comm);
    return EITHER(MPI_Bcast, MPI_Ibcast, w->recv, count, type, w->root, comm);
}

static int uneven(const work *w, MPI_Request *req)
{
    const MPI_Datatype type = type_of(w);
    const MPI_Comm comm = w->peer->comm;
    const int *counts = w->int_counts, *places = w->int_places;
    const int own = counts[w->rank];
    const bool is_root = w->rank == w->root;
    const void *send = w->in_place ? MPI_IN_PLACE : w->send;
    if (w->kind == REDUCE_SCATTER)
        return EITHER(MPI_Reduce_scatter, MPI_Ireduce_scatter, send,
                      w->in_place ? w->send : w->recv, counts, type, op_of(w),
                      comm);
    if (w->kind == ALLGATHER)
        return EITHER(MPI_Allgatherv, MPI_Iallgatherv, send, own, type, w->recv,
                      counts, places, type, comm);
    if (w->kind == GATHER)
        return EITHER(MPI_Gatherv, MPI_Igatherv, is_root ? send : w->send, own,
                      type, w->recv, counts, places, type, w->root, comm);
    if (w->kind == SCATTER)
        return EITHER(MPI_Scatterv, MPI_Iscatterv, w->send, counts, places,
                      type, w->in_place && is_root ? MPI_IN_PLACE : w->recv,
                      own, type, w->root, comm);
    return EITHER(MPI_Alltoallv, MPI_Ialltoallv, send, counts, places, type,
                  w->recv, counts, places, type, comm);
}

static int call(const work *w, MPI_Request *req)
{
    const MPI_Datatype type = type_of(w);
    const MPI_Comm comm = w->peer->comm;
    const int count = (int)w->count;
    const void *send = w->in_place ? MPI_IN_PLACE : w->send;
    if (w->uneven)
        return uneven(w, req);
    if (w->kind == BARRIER)
        return EITHER(MPI_Barrier, MPI_Ibarrier, comm);
    if (kind_reduces(w->kind))
        return reduce(w, req);
    if (w->kind == ALLGATHER)
        return EITHER(MPI_Allgather, MPI_Iallgather, send, count, type, w->recv,
                      count, type, comm);
    if (w->kind == ALLTOALL)
        return EITHER(MPI_Alltoall, MPI_Ialltoall, send, count, type, w->recv,
                      count, type, comm);
    return at_root(w, req);
}

static void need(int code)
{
    if (code != MPI_SUCCESS) {
        fprintf(stderr, "bench_collectives: a call of MPI failed: %d\n", code);
        exit(1);
    }
}

void peer_run(const work *w)
{
    need(call(w, NULL));
}

void peer_run_all(work *const *works, int n)
{
    static MPI_Request reqs[PEER_MOST];
    static MPI_Status states[PEER_MOST];
    for (int i = 0; i < n; i++)
        need(call(works[i], &reqs[i]));
    need(MPI_Waitall(n, reqs, states));
}

void peer_barrier(const rg__peer *p)
{
    need(MPI_Barrier(p->comm));
}
