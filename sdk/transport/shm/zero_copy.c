/* Collectives that copy nothing: every member's rg_alloc memory is mapped in
 * every process, so each reads and writes where the data lie. One step of the
 * flags ends them: no member leaves while another still reads or writes its
 * memory.
 *
 * What a descriptor says about memory is looked up and checked again in every
 * call, since a mapping can go when its owner leaves. */
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/transport/shm/shm_comm.h"
#include "sdk/transport/reduce.h"

/* --------------------------------------------- where a member's memory is */

/* A registered buffer counts as ordinary memory between hosts, in small
 * operations, and once the program has unmapped it. */
static bool may_be_named(const rg__native *c, const rg__mapping *map,
                         uint64_t bytes)
{
    return map->home.at == NULL ||
           (rg__shm_stays(c) && bytes > SMALL_BYTES &&
            rg__mapping_is_shared(c->shared->mappings->maps, &map->home));
}

static const rg__mapping *name_place(const rg__native *c, const void *p,
                                     uint64_t bytes, uint32_t *segment_p,
                                     uint64_t *at_p)
{
    const rg__shared *sh = c->shared;
    const rg__mapping *map =
        rg__mapping_of(sh->mappings, sh->member[sh->rank], p, bytes);
    if (map == NULL || !may_be_named(c, map, bytes))
        return NULL;
    *segment_p = map->id;
    *at_p = rg__mapping_place(map, p);
    return map;
}

/* Name memory that others read. */
static void name_source(const rg__native *c, const void *p, uint64_t bytes,
                        uint32_t *segment_p, uint64_t *at_p)
{
    const rg__mapping *map = name_place(c, p, bytes, segment_p, at_p);
    if (map != NULL)
        rg__mapping_give_edges(map, p, bytes);
}

/* An allgather whose send lies in recv, but not at its own place, must be
 * copied before any member writes recv: it counts as private. */
static bool is_in_the_way(const rg__native *c)
{
    const char *send = c->coll.send, *recv = c->coll.recv;
    const char *place = recv + (uint64_t)c->rank * c->bytes;
    return c->coll.kind == RG__ALLGATHER && send != place &&
           send < recv + (uint64_t)c->n * c->bytes && recv < send + c->bytes;
}

static void name_result(const rg__native *c, rg__where *w)
{
    if (c->coll.recv != c->coll.send) {
        name_place(c, c->coll.recv, c->bytes, &w->recv_segment, &w->recv_at);
        return;
    }
    w->recv_segment = w->send_segment;
    w->recv_at = w->send_at;
}

void rg__zero_copy_describe(const rg__native *c, rg__where *w)
{
    memset(w, 0, sizeof *w);
    if (c->coll.kind == RG__BROADCAST) {
        name_source(c, c->coll.recv, c->bytes, &w->recv_segment, &w->recv_at);
        if (c->root == c->rank)
            rg__read_describe(c, c->coll.recv, c->bytes, &w->recv_segment,
                              &w->recv_at, w);
        return;
    }
    if (!is_in_the_way(c))
        name_source(c, c->coll.send, c->bytes, &w->send_segment, &w->send_at);
    if (!is_in_the_way(c))
        rg__read_describe(c, c->coll.send, c->bytes, &w->send_segment,
                          &w->send_at, w);
    if (c->coll.kind == RG__ALLREDUCE ||
        (c->coll.kind == RG__REDUCE && c->root == c->rank))
        name_result(c, w);
}

void rg__zero_copy_describe_send(const rg__native *c, uint64_t bytes,
                                 uint64_t part, rg__where *w)
{
    name_source(c, c->coll.send, bytes, &w->send_segment, &w->send_at);
    rg__read_describe(c, c->coll.send, part, &w->send_segment, &w->send_at, w);
}

/* Does member m receive the sum? */
static bool receives(const rg__native *c, int m)
{
    return c->coll.kind == RG__ALLREDUCE ||
           (c->coll.kind == RG__REDUCE && m == c->root);
}

bool rg__zero_copy_is_possible(const rg__native *c)
{
    if (c->coll.kind == RG__BROADCAST)
        return c->posting[c->root].at.recv_segment != 0;
    for (int m = 0; m < c->n; m++) {
        const rg__where *w = &c->posting[m].at;
        if (w->send_segment == 0 || (receives(c, m) && w->recv_segment == 0))
            return false;
    }
    return true;
}

/* IN_PROGRESS: the segment has not arrived in this process yet. */
static rg_status locate(const rg__native *c, int m, uint32_t segment,
                        uint64_t at, uint64_t bytes, char **p_p)
{
    if (segment == RG__READ && rg__read_is_possible(c)) {
        *p_p = (char *)(uintptr_t)at;
        return RG_OK;
    }
    const rg__mapping *map = rg__mapping_find(
        c->shared->mappings, c->shared->member[c->member[m].rank], segment);
    c->member[m].lacks_map = map == NULL ? c->ops : 0;
    if (map == NULL)
        return RG_IN_PROGRESS;
    if (at > map->bytes || bytes > map->bytes - at)
        return rg__fail(RG_ERR_MISMATCH,
                        "rank %d of %s names memory outside of its rg_alloc "
                        "segment %u; something wrote over its descriptor",
                        m, rg__set_words(c->id).text, segment);
    *p_p = map->at + at;
    return RG_OK;
}

rg_status rg__zero_copy_locate_to(rg__native *c, int m)
{
    const rg__where *w = &c->posting[m].at;
    return locate(c, m, w->recv_segment, w->recv_at, c->bytes,
                  &c->member[m].to);
}

rg_status rg__zero_copy_locate_part(const rg__native *c, int m, uint64_t at,
                                    uint64_t bytes, const char **from_p)
{
    const rg__where *w = &c->posting[m].at;
    char *from = NULL;
    const rg_status st =
        locate(c, m, w->send_segment, w->send_at + at, bytes, &from);
    *from_p = from;
    return st;
}

rg_status rg__zero_copy_locate_all(rg__native *c)
{
    for (int m = 0; m < c->n; m++) {
        const rg__where *w = &c->posting[m].at;
        rg_status st = locate(c, m, w->send_segment, w->send_at, c->bytes,
                              &c->member[m].from);
        if (st == RG_OK && receives(c, m))
            st = rg__zero_copy_locate_to(c, m);
        if (st != RG_OK)
            return st;
    }
    return RG_OK;
}

/* ----------------------------------------------------------------- the end */

static void post_done(rg__native *c)
{
    c->last = 1;
    c->done = 1;
    c->base.moves++;
    rg__read_post(c);
}

/* Others have written my registered buffer's edges to the segment. */
static void take_edges(const rg__native *c)
{
    const rg__shared *sh = c->shared;
    const uint32_t id = c->posting[c->rank].at.recv_segment;
    const rg__mapping *map =
        rg__mapping_find(sh->mappings, sh->member[sh->rank], id);
    if (map != NULL)
        rg__mapping_take_edges(map, c->coll.recv, c->bytes);
}

static rg_status end(rg__native *c)
{
    if (rg__read_is_used(c))
        return rg__read_end(c);
    if (!rg__shm_all_posted(c, FLAG_DONE, 1))
        return RG_IN_PROGRESS;
    if (receives(c, c->rank))
        take_edges(c);
    return RG_OK;
}

/* --------------------------------------------------------------- allreduce */

/* Sum one block in rank order, and copy the sum to the other members while it
 * is in the cache. */
static void reduce_block(const rg__native *c, uint64_t at, size_t bytes)
{
    _Alignas(64) char apart[RG__REDUCE_BLOCK];
    const void *src[RG__SOURCES_MAX];
    char *sum = receives(c, c->rank) && rg__shm_sums_there(c)
                    ? c->member[c->rank].to + at
                    : apart;
    for (int m = 0; m < c->n; m++)
        src[m] = c->member[m].from + at;
    rg__combine(&c->coll, sum, src, c->n, bytes / rg_type_size(c->coll.type),
                c->n);
    for (int m = 0; m < c->n; m++)
        if (receives(c, m) && c->member[m].to + at != sum)
            rg__copy(c->member[m].to + at, sum, bytes);
}

/* Sum a block of my part of a reduce_scatter. The sum goes to my memory only,
 * and no other member reads what it overwrites. */
static void reduce_part(const rg__native *c, uint64_t at, size_t bytes)
{
    const void *src[RG__SOURCES_MAX];
    uint64_t begin, end;
    rg__shm_part(c, c->rank, &begin, &end);
    char *to = (char *)c->coll.recv + (at - begin);
    _Alignas(64) char sum[RG__REDUCE_BLOCK];
    for (int m = 0; m < c->n; m++)
        src[m] = c->member[m].from + at;
    rg__combine(&c->coll, sum, src, c->n, bytes / rg_type_size(c->coll.type),
                rg__shm_sum_of(c));
    rg__copy(to, sum, bytes);
}

static void my_slice(const rg__native *c, uint64_t *begin_p, uint64_t *end_p)
{
    size_t begin, end;
    if (rg__kind_scatters(c->coll.kind)) {
        rg__shm_part(c, c->rank, begin_p, end_p);
        return;
    }
    rg__vault_slice((size_t)c->bytes, (uint32_t)c->rank, (uint32_t)c->n, &begin,
                    &end);
    *begin_p = begin;
    *end_p = end;
}

/* Advance by a bounded piece in my slice; true: it is done. */
static bool reduce_slice(rg__native *c)
{
    uint64_t begin, finish;
    my_slice(c, &begin, &finish);
    size_t budget = RG__WORK_BYTES / (size_t)c->n;
    while (begin + c->at < finish) {
        const size_t bytes =
            rg__least(finish - begin - c->at, RG__REDUCE_BLOCK);
        if (rg__kind_scatters(c->coll.kind))
            reduce_part(c, begin + c->at, bytes);
        else
            reduce_block(c, begin + c->at, bytes);
        c->at += bytes;
        c->base.moves++;
        if (budget <= bytes)
            return begin + c->at >= finish;
        budget -= bytes;
    }
    return true;
}

/* For operations that read all members; advance is true when I am done. */
static inline rg_status read_all(rg__native *c, bool (*advance)(rg__native *c))
{
    if (c->done == 0) {
        const rg_status st = rg__zero_copy_locate_all(c);
        if (st != RG_OK)
            return st;
        if (!advance(c))
            return RG_IN_PROGRESS;
        post_done(c);
    }
    return end(c);
}

rg_status rg__zero_copy_allreduce(rg__native *c)
{
    return read_all(c, reduce_slice);
}

/* --------------------------------------------------------------- broadcast */

rg_status rg__zero_copy_broadcast(rg__native *c)
{
    const int root = c->root;
    if (c->done == 0) {
        const rg_status st = rg__zero_copy_locate_to(c, root);
        if (st != RG_OK)
            return st;
        if (root != c->rank &&
            !rg__read_take(c, root, c->posting[root].at.recv_segment,
                           c->coll.recv, c->member[root].to, c->bytes))
            return RG_IN_PROGRESS;
        post_done(c);
    }
    return root == c->rank || rg__read_is_used(c) ? end(c) : RG_OK;
}

/* --------------------------------------------------------------- allgather */

/* Copy one piece of one member's data, beginning with mine, which may be in the
 * cache; true: everything is copied. */
static bool gather_piece(rg__native *c)
{
    const int m = (c->rank + c->peer) % c->n;
    char *to = (char *)c->coll.recv + (uint64_t)m * c->bytes;
    const char *from = m == c->rank ? c->coll.send : c->member[m].from;
    const bool is_there = m == c->rank && c->coll.send == to;
    if (is_there || rg__read_take(c, m, c->posting[m].at.send_segment, to, from,
                                  c->bytes)) {
        c->peer++;
        c->at = 0;
    }
    return c->peer == c->n;
}

rg_status rg__zero_copy_allgather(rg__native *c)
{
    return read_all(c, gather_piece);
}
