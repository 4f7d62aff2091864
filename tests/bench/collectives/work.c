#include "tests/bench/collectives/work.h"

#include <stdlib.h>
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

bool kind_has_parts(kind k)
{
    return k == REDUCE_SCATTER || k == ALLGATHER || k == GATHER ||
           k == SCATTER || k == ALLTOALL;
}

static size_t aligned(uint64_t bytes)
{
    return (size_t)(bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Uneven parts have a half, the whole and one and a half of the mean. */
size_t work_room(const work *w, uint64_t size)
{
    const uint64_t parts = (uint64_t)w->n * rg_type_size(w->type);
    const uint64_t even = size > parts ? size : parts;
    return 2 * aligned(w->uneven ? even * 3 / 2 + parts : even);
}

bool work_open(work *w)
{
    w->counts = calloc((size_t)w->n, sizeof *w->counts);
    w->int_counts = calloc((size_t)w->n * 2, sizeof *w->int_counts);
    w->int_places = w->int_counts + w->n;
    return w->counts != NULL && w->int_counts != NULL;
}

void work_close(work *w)
{
    free(w->counts);
    free(w->int_counts);
}

/* What two ranks have in common in an alltoall is the same for both. */
static void set_counts(work *w)
{
    uint64_t place = 0;
    for (int r = 0; r < w->n; r++) {
        const int third = w->kind == ALLTOALL ? (r + w->rank) % 3 : r % 3;
        w->counts[r] =
            w->uneven ? (w->count * (uint64_t)(1 + third) + 1) / 2 : w->count;
        w->int_counts[r] = (int)w->counts[r];
        w->int_places[r] = (int)place;
        place += w->counts[r];
    }
}

void work_size(work *w, uint64_t size)
{
    const uint64_t parts = kind_has_parts(w->kind) ? (uint64_t)w->n : 1;
    w->count = size / rg_type_size(w->type) / parts;
    if (w->count == 0)
        w->count = 1;
    if (w->kind == BARRIER)
        w->count = 0;
    set_counts(w);
    tile_of_given(&w->given, w->type);
    tile_of_result(&w->result, w->type, w->redop, w->n);
}

/* Elements before the part of a rank. */
static uint64_t place(const work *w, int rank)
{
    uint64_t elements = 0;
    for (int r = 0; r < rank; r++)
        elements += w->counts[r];
    return elements;
}

uint64_t work_elements(const work *w)
{
    return kind_has_parts(w->kind) ? place(w, w->n) : w->count;
}

uint64_t work_bytes(const work *w)
{
    return work_elements(w) * rg_type_size(w->type);
}

static char *part(const work *w, char *parts, int rank)
{
    return parts + place(w, rank) * rg_type_size(w->type);
}

/* Elements that this rank gives to all, or receives as its own. */
static uint64_t own_count(const work *w)
{
    return kind_has_parts(w->kind) ? w->counts[w->rank] : w->count;
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
    return is_part ? own_count(w) * rg_type_size(w->type) : work_bytes(w);
}

static void write_parts(const work *w, uint64_t round)
{
    for (int to = 0; to < w->n; to++)
        tile_write(&w->given, part(w, w->send, to), w->counts[to],
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
        tile_write(&w->given, w->send, own_count(w),
                   tile_phase(w->rank, 0, round));
}

static uint64_t wrong_parts(const work *w, uint64_t round, int to)
{
    uint64_t wrong = 0;
    for (int from = 0; from < w->n; from++)
        wrong += tile_wrong(&w->given, part(w, w->recv, from), w->counts[from],
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
        return tile_wrong(&w->result, own, own_count(w),
                          tile_phase(0, w->rank, round));
    case ALLGATHER:
        return wrong_parts(w, round, 0);
    case GATHER:
        return is_root ? wrong_parts(w, round, 0) : 0;
    case BROADCAST:
        return tile_wrong(&w->given, w->recv, w->count,
                          tile_phase(w->root, 0, round));
    case SCATTER:
        return tile_wrong(&w->given, w->recv, own_count(w),
                          tile_phase(w->root, w->rank, round));
    case ALLTOALL:
        return wrong_parts(w, round, w->rank);
    default:
        return 0;
    }
}
