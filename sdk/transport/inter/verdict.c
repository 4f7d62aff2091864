/* The outcome of an operation over several hosts: the verdict of rail 0, how
 * the others learn of it, and the results of small and medium operations. What
 * was not added up on its way (exchange.c) is so in the order of the hosts: all
 * ranks get the same bits. */
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/transport/inter/inter.h"
#include "sdk/transport/reduce.h"

/* ------------------------------------------------------------- host by host */

static bool has_all_data(const rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    for (int h = 0; h < s->hosts; h++)
        if ((h == s->host || !rg__exchange_adds(c)) &&
            rg__exchange_data(c, h) == NULL)
            return false;
    return true;
}

/* ------------------------------------------------------------------ results */

static void add_hosts_up(const rg__native *c, void *sum, size_t bytes)
{
    const rg__coll *o = &c->coll;
    const size_t count = bytes / rg_type_size(o->type);
    const bool is_sum = rg__exchange_adds(c);
    rg__copy(sum, rg__exchange_data(c, is_sum ? c->inter->topology.host : 0),
             bytes);
    for (int h = 1; h < c->inter->topology.hosts && !is_sum; h++)
        rg__reduce(o->type, o->op, sum, sum, rg__exchange_data(c, h), count);
    rg__finish(o, sum, count, c->set_n);
}

static void place_all(const rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    for (int h = 0; h < s->hosts; h++) {
        const size_t members = (size_t)rg__topology_size(s, h);
        const size_t part = rg__payload_share(c, h) / members;
        const char *data = rg__exchange_data(c, h);
        for (size_t k = 0; k < members; k++)
            rg__copy((char *)c->coll.recv +
                         (size_t)rg__topology_member(s, h, (int)k) * part,
                     data + k * part, part);
    }
}

static void place_roots(const rg__native *c)
{
    const int root = c->inter->topology.host_of[c->coll.root];
    if (c->coll.root != c->set_rank)
        rg__copy(c->coll.recv, rg__exchange_data(c, root),
                 rg__payload_share(c, root));
}

static void finish_small(const rg__native *c)
{
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
    case RG__REDUCE_SCATTER:
        add_hosts_up(c, c->coll.recv,
                     rg__payload_share(c, c->inter->topology.host));
        break;
    case RG__BROADCAST:
    case RG__SCATTER:
        place_roots(c);
        break;
    case RG__ALLGATHER:
    case RG__ALLTOALL:
        place_all(c);
        break;
    default:
        break;
    }
}

static size_t small_bytes(const rg__native *c)
{
    return c->coll.kind == RG__ALLGATHER ? c->bytes * (size_t)c->set_n
                                         : c->bytes;
}

/* Where rail 0 puts results and descriptors for the local members; a small one
 * is in the verdict itself. */
static char *room_for(const rg__native *c, size_t bytes)
{
    return bytes <= INLINE_BYTES ? c->inter->verdict->data
                                 : c->member[0].staging;
}

static void share_small(const rg__native *c)
{
    const size_t bytes = small_bytes(c);
    if (bytes == 0)
        return;
    finish_small(c);
    if (c->n > 1)
        rg__copy(room_for(c, bytes), c->coll.recv, bytes);
}

static void copy_small(const rg__native *c)
{
    const size_t bytes = small_bytes(c);
    const bool is_there =
        c->coll.kind == RG__BROADCAST && c->coll.root == c->set_rank;
    if (bytes > 0 && !is_there)
        rg__copy(c->coll.recv, room_for(c, bytes), bytes);
}

/* No other member reads my slice of my slot until it is posted: once the
 * verdict is good, as the steps of an operation that differs don't count. */
static void finish_slice(rg__native *c)
{
    size_t begin, end;
    rg__payload_slice(c, c->rank, &begin, &end);
    char *to = c->n == 1 ? c->coll.recv : rg__shm_medium(c, c->rank);
    add_hosts_up(c, to + begin, end - begin);
    c->base.moves++;
}

static rg_status gather_slices(rg__native *c)
{
    const int rails = c->inter->topology.rails;
    for (int k = 0; k < rails; k++)
        if (!rg__shm_posted(c, k, FLAG_OUT, 1))
            return RG_IN_PROGRESS;
    for (int k = 0; k < rails && c->n > 1; k++) {
        size_t begin, end;
        rg__payload_slice(c, k, &begin, &end);
        rg__copy((char *)c->coll.recv + begin, rg__shm_medium(c, k) + begin,
                 end - begin);
    }
    c->last = 1;
    c->base.moves++;
    rg__shm_post_end(c);
    return RG_OK;
}

/* ------------------------------------------------------------------ verdict */

static rg_status compare(rg__native *c)
{
    rg__coll joined = {0};
    const rg_status st =
        rg__slip_compare(&c->slip, c->ops, c->id, c->inter->descriptor,
                         sizeof(rg__descriptor), c->set_n, &joined);
    c->base.joined = joined;
    return st;
}

static void tell(rg__native *c, bool differs)
{
    rg__exchange_verdict *v = c->inter->verdict;
    v->differs = differs;
    atomic_store_explicit(&v->seq, rg__shm_seq(c->id, c->ops),
                          memory_order_release);
    rg__shm_ring(c);
}

static rg_status go_on(rg__native *c)
{
    if (c->inter->size_class == SMALL)
        return RG_OK;
    if (c->inter->size_class == MEDIUM) {
        if (c->rank < c->inter->topology.rails)
            rg__shm_post(c, FLAG_OUT, 1);
        c->advance = gather_slices;
    } else {
        rg__pipeline_begin(c);
    }
    return RG_IN_PROGRESS;
}

static rg_status fail_together(rg__native *c, rg_status st)
{
    if (c->n > 1)
        memcpy(c->member[0].staging, c->inter->descriptor,
               sizeof(rg__descriptor) * (size_t)c->set_n);
    c->inter->has_differed = true;
    tell(c, true);
    return st;
}

static rg_status blame_blocks(const rg__native *c)
{
    rg__link_break(c->inter->exchange.from[0],
                   "a block of operation %u does not have the data that its "
                   "descriptors announce",
                   c->inter->ops);
    return RG_IN_PROGRESS;
}

rg_status rg__verdict_find(rg__native *c)
{
    rg_status st = rg__exchange_go_on(c);
    if (st != RG_OK)
        return st;
    rg__exchange_collect(c);
    st = compare(c);
    if (st != RG_OK || c->coll.kind == RG__JOIN)
        return fail_together(c, st);
    if (!has_all_data(c))
        return blame_blocks(c);
    if (c->inter->size_class == SMALL)
        share_small(c);
    else if (c->inter->size_class == MEDIUM)
        finish_slice(c);
    tell(c, false);
    return go_on(c);
}

/* ----------------------------------------------------------- other members */

/* Then all members know all descriptors; a join, without data, ends so too. */
static rg_status collect_difference(rg__native *c)
{
    memcpy(c->inter->descriptor, c->member[0].staging,
           sizeof(rg__descriptor) * (size_t)c->set_n);
    c->inter->has_differed = true;
    const rg_status st = compare(c);
    return st != RG_OK || c->coll.kind == RG__JOIN
               ? st
               : rg__fail(RG_ERR_MISMATCH,
                          "members of %s have started different operations",
                          rg__set_words(c->id).text);
}

/* OK: the verdict is there, and good. */
static rg_status collect_verdict(rg__native *c)
{
    const rg__exchange_verdict *v = c->inter->verdict;
    if (atomic_load_explicit(&v->seq, memory_order_acquire) !=
        rg__shm_seq(c->id, c->ops))
        return RG_IN_PROGRESS;
    if (v->differs != 0)
        return collect_difference(c);
    rg__slip_clear(&c->slip);
    return RG_OK;
}

rg_status rg__verdict_await(rg__native *c)
{
    const rg_status st = collect_verdict(c);
    if (st != RG_OK)
        return st;
    c->base.moves++;
    if (c->inter->size_class == SMALL)
        copy_small(c);
    return go_on(c);
}

/* On hosts that have started another operation there may be no member that
 * answers this rail, but rail 0 is answered everywhere. */
rg_status rg__verdict_find_beside(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    rg_status st = RG_OK;
    if (!e->is_complete) {
        st = rg__exchange_go_on(c);
        if (st == RG_OK && has_all_data(c))
            finish_slice(c);
    }
    if (st == RG_OK || st == RG_IN_PROGRESS)
        st = collect_verdict(c);
    if (st != RG_OK || !e->is_complete)
        return st == RG_OK ? RG_IN_PROGRESS : st;
    return has_all_data(c) ? go_on(c) : blame_blocks(c);
}
