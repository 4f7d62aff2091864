#include "tests/bench/collectives/work.h"

#include <string.h>

#define ALIGN 64

const char *const kind_names[KINDS] = {
    "allreduce", "reduce",  "reduce_scatter", "allgather", "broadcast",
    "gather",    "scatter", "alltoall",       "barrier"};

bool kind_reduces(kind k)
{
    return k == ALLREDUCE || k == REDUCE || k == REDUCE_SCATTER;
}

bool kind_has_root(kind k)
{
    return k == REDUCE || k == BROADCAST || k == GATHER || k == SCATTER;
}

double kind_factor(kind k, int n)
{
    switch (k) {
    case ALLREDUCE:
        return 2.0 * (n - 1) / n;
    case REDUCE:
    case BROADCAST:
        return 1;
    default:
        return (double)(n - 1) / n;
    }
}

/* Each rank has a part of its own in the longer buffer. */
static bool has_parts(kind k)
{
    return k == REDUCE_SCATTER || k == ALLGATHER || k == GATHER ||
           k == SCATTER || k == ALLTOALL;
}

static size_t aligned(uint64_t bytes)
{
    return (size_t)(bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t work_room(uint64_t size, rg_type type, int n)
{
    const uint64_t least = (uint64_t)n * rg_type_size(type);
    return 2 * aligned(size > least ? size : least);
}

void work_size(work *w, uint64_t size)
{
    const uint64_t parts = has_parts(w->kind) ? (uint64_t)w->n : 1;
    w->count = size / rg_type_size(w->type) / parts;
    if (w->count == 0)
        w->count = 1;
    if (w->kind == BARRIER)
        w->count = 0;
    tile_of_given(&w->given, w->type);
    tile_of_result(&w->result, w->type, w->redop, w->n);
}

uint64_t work_bytes(const work *w)
{
    const uint64_t parts = has_parts(w->kind) ? (uint64_t)w->n : 1;
    return w->count * parts * rg_type_size(w->type);
}

static char *part(const work *w, char *parts, int rank)
{
    return parts + (uint64_t)rank * w->count * rg_type_size(w->type);
}

void work_place(work *w, void *room)
{
    char *own = part(w, room, w->rank);
    w->send = w->recv = room;
    if (w->kind == BROADCAST)
        return;
    if (!w->in_place)
        w->recv = w->send + aligned(work_bytes(w));
    else if (w->kind == ALLGATHER || w->kind == GATHER)
        w->send = own;
    else if (w->kind == REDUCE_SCATTER || w->kind == SCATTER)
        w->recv = own;
}

/* Bytes of this rank's result. */
static uint64_t received(const work *w)
{
    const bool is_part = w->kind == REDUCE_SCATTER || w->kind == SCATTER;
    return is_part ? w->count * rg_type_size(w->type) : work_bytes(w);
}

static void write_parts(const work *w, uint64_t round)
{
    for (int to = 0; to < w->n; to++)
        tile_write(&w->given, part(w, w->send, to), w->count,
                   tile_phase(w->rank, to, round));
}

static bool sends(const work *w)
{
    const bool is_for_root = w->kind == BROADCAST || w->kind == SCATTER;
    return w->kind != BARRIER && (!is_for_root || w->rank == w->root);
}

void work_write(const work *w, uint64_t round)
{
    if (w->send != w->recv || !sends(w))
        memset(w->recv, 0x5a, (size_t)received(w));
    if (!sends(w))
        return;
    if (w->kind == REDUCE_SCATTER || w->kind == ALLTOALL || w->kind == SCATTER)
        write_parts(w, round);
    else
        tile_write(&w->given, w->send, w->count, tile_phase(w->rank, 0, round));
}

rg_status work_start(const work *w, rg_req **req_p)
{
    const rg_op_params at = {sizeof at, w->root};
    switch (w->kind) {
    case ALLREDUCE:
        return rg_allreduce_start(w->set, w->send, w->recv, w->count, w->type,
                                  w->redop, NULL, req_p);
    case REDUCE:
        return rg_reduce_start(w->set, w->send, w->recv, w->count, w->type,
                               w->redop, &at, req_p);
    case REDUCE_SCATTER:
        return rg_reduce_scatter_start(w->set, w->send, w->recv, w->count,
                                       w->type, w->redop, NULL, req_p);
    case ALLGATHER:
        return rg_allgather_start(w->set, w->send, w->recv, w->count, w->type,
                                  NULL, req_p);
    case BROADCAST:
        return rg_broadcast_start(w->set, w->recv, w->count, w->type, &at,
                                  req_p);
    case GATHER:
        return rg_gather_start(w->set, w->send, w->recv, w->count, w->type, &at,
                               req_p);
    case SCATTER:
        return rg_scatter_start(w->set, w->send, w->recv, w->count, w->type,
                                &at, req_p);
    case ALLTOALL:
        return rg_alltoall_start(w->set, w->send, w->recv, w->count, w->type,
                                 NULL, req_p);
    default:
        return rg_barrier_start(w->set, NULL, req_p);
    }
}

rg_status work_run(const work *w)
{
    rg_req *req = NULL;
    const rg_status st = work_start(w, &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}

static uint64_t wrong_parts(const work *w, uint64_t round, int to)
{
    uint64_t wrong = 0;
    for (int from = 0; from < w->n; from++)
        wrong += tile_wrong(&w->given, part(w, w->recv, from), w->count,
                            tile_phase(from, to, round));
    return wrong;
}

uint64_t work_wrong(const work *w, uint64_t round, bool by_mpi)
{
    /* MPI's in-place reduce_scatter leaves the result where send begins. */
    const char *own = by_mpi && w->in_place ? w->send : w->recv;
    const bool is_root = w->rank == w->root;
    switch (w->kind) {
    case ALLREDUCE:
        return tile_wrong(&w->result, w->recv, w->count,
                          tile_phase(0, 0, round));
    case REDUCE:
        return is_root ? tile_wrong(&w->result, w->recv, w->count,
                                    tile_phase(0, 0, round))
                       : 0;
    case REDUCE_SCATTER:
        return tile_wrong(&w->result, own, w->count,
                          tile_phase(0, w->rank, round));
    case ALLGATHER:
        return wrong_parts(w, round, 0);
    case GATHER:
        return is_root ? wrong_parts(w, round, 0) : 0;
    case BROADCAST:
        return tile_wrong(&w->given, w->recv, w->count,
                          tile_phase(w->root, 0, round));
    case SCATTER:
        return tile_wrong(&w->given, w->recv, w->count,
                          tile_phase(w->root, w->rank, round));
    case ALLTOALL:
        return wrong_parts(w, round, w->rank);
    default:
        return 0;
    }
}
