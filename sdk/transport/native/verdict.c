/* What becomes of an operation over several hosts: how far its data reach, the
 * verdict of lane 0 and how the others learn of it, and the results of small
 * and medium operations. Sums are made in the order of the hosts, so that all
 * ranks get the same bits. */
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/transport/native/across.h"
#include "sdk/transport/reduce.h"

reach rg__verdict_reach(const comm *c)
{
    const spread *s = &c->across->spread;
    const bool is_sum =
        c->coll.kind == RG__ALLREDUCE || c->coll.kind == RG__AGREE;
    const uint64_t hosts = (uint64_t)s->hosts;
    const uint64_t shares = c->coll.kind == RG__ALLGATHER ? (uint64_t)s->n
                            : is_sum                      ? hosts
                                                          : 1;
    if (c->bytes <= SMALL_BYTES && c->bytes * shares <= SMALL_ALL)
        return SMALL;
    return is_sum && c->bytes <= MEDIUM_BYTES && c->bytes * hosts <= MEDIUM_ALL
               ? MEDIUM
               : LARGE;
}

/* ---------------------------------------------------- data in blocks, slots */

static char *medium_of(const comm *c, int m)
{
    return c->member[m].medium + (c->ops & 1) * MEDIUM_BYTES;
}

static void slice_of(const comm *c, int lane, size_t *begin_p, size_t *end_p)
{
    rg__vault_slice((size_t)c->bytes, (uint32_t)lane,
                    (uint32_t)c->across->spread.lanes, begin_p, end_p);
}

uint32_t rg__verdict_data_bytes(const comm *c, int host)
{
    const spread *s = &c->across->spread;
    size_t begin, end;
    if (c->across->reach == LARGE || c->bytes == 0)
        return 0;
    if (c->across->reach == MEDIUM) {
        slice_of(c, c->rank, &begin, &end);
        return (uint32_t)(end - begin);
    }
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        return (uint32_t)c->bytes;
    case RG__BROADCAST:
        return s->host_of[c->coll.root] == host ? (uint32_t)c->bytes : 0;
    case RG__ALLGATHER:
        return (uint32_t)c->bytes * (uint32_t)rg__spread_size(s, host);
    default:
        break;
    }
    return 0;
}

/* What other lanes of this host need; my own slice I read where it is. */
void rg__verdict_publish(comm *c)
{
    if (c->across->reach != MEDIUM)
        return;
    const char *data = c->coll.send;
    char *slot = medium_of(c, c->rank);
    size_t begin = 0, end = 0;
    if (c->rank < c->across->spread.lanes)
        slice_of(c, c->rank, &begin, &end);
    rg__copy(slot, data, begin);
    rg__copy(slot + end, data + end, c->bytes - end);
}

static const char *contribution(const comm *c, int m)
{
    return m == c->rank ? (const char *)c->coll.send : medium_of(c, m);
}

static void sum_slices(const comm *c, char *sum)
{
    const void *src[RG__SOURCES_MAX];
    size_t begin, end;
    slice_of(c, c->rank, &begin, &end);
    for (int m = 0; m < c->n; m++)
        src[m] = contribution(c, m) + begin;
    rg__combine(&c->coll, sum, src, c->n,
                (end - begin) / rg_type_size(c->coll.type), -c->set_n);
}

void rg__verdict_fill(const comm *c, char *data)
{
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        if (c->across->reach == MEDIUM)
            sum_slices(c, data);
        else
            rg__native_small_sum(c, data);
        break;
    case RG__BROADCAST:
        rg__copy(data, rg__native_small_of(c, c->root), c->bytes);
        break;
    case RG__ALLGATHER:
        for (int m = 0; m < c->n; m++)
            rg__copy(data + (size_t)m * c->bytes, rg__native_small_of(c, m),
                     c->bytes);
        break;
    default:
        break;
    }
}

static bool has_all_data(const comm *c)
{
    for (int h = 0; h < c->across->spread.hosts; h++)
        if (rg__exchange_data(c, h) == NULL)
            return false;
    return true;
}

/* ------------------------------------------------------------------ results */

static void add_hosts_up(const comm *c, void *sum, size_t bytes)
{
    const rg__coll *o = &c->coll;
    const size_t count = bytes / rg_type_size(o->type);
    rg__reduce(o->type, o->op, sum, rg__exchange_data(c, 0),
               rg__exchange_data(c, 1), count);
    for (int h = 2; h < c->across->spread.hosts; h++)
        rg__reduce(o->type, o->op, sum, sum, rg__exchange_data(c, h), count);
    rg__finish(o, sum, count, c->set_n);
}

static void place_all(const comm *c)
{
    const spread *s = &c->across->spread;
    for (int h = 0; h < s->hosts; h++) {
        const char *data = rg__exchange_data(c, h);
        for (int k = 0; k < rg__spread_size(s, h); k++)
            rg__copy((char *)c->coll.recv +
                         (size_t)rg__spread_member(s, h, k) * c->bytes,
                     data + (size_t)k * c->bytes, c->bytes);
    }
}

static void place_roots(const comm *c)
{
    const int root = c->across->spread.host_of[c->coll.root];
    if (c->coll.root != c->set_rank)
        rg__copy(c->coll.recv, rg__exchange_data(c, root), c->bytes);
}

static void finish_small(const comm *c)
{
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        add_hosts_up(c, c->coll.recv, c->bytes);
        break;
    case RG__BROADCAST:
        place_roots(c);
        break;
    case RG__ALLGATHER:
        place_all(c);
        break;
    default:
        break;
    }
}

static size_t small_bytes(const comm *c)
{
    return c->coll.kind == RG__ALLGATHER ? c->bytes * (size_t)c->set_n
                                         : c->bytes;
}

/* Where lane 0 puts results and lines for the local members; a little one
 * stands in the verdict itself. */
static char *room_for(const comm *c, size_t bytes)
{
    return bytes <= INLINE_BYTES ? c->across->verdict->data
                                 : c->member[0].staging;
}

static void share_small(const comm *c)
{
    const size_t bytes = small_bytes(c);
    if (bytes == 0)
        return;
    finish_small(c);
    if (c->n > 1)
        rg__copy(room_for(c, bytes), c->coll.recv, bytes);
}

static void copy_small(const comm *c)
{
    const size_t bytes = small_bytes(c);
    const bool is_there =
        c->coll.kind == RG__BROADCAST && c->coll.root == c->set_rank;
    if (bytes > 0 && !is_there)
        rg__copy(c->coll.recv, room_for(c, bytes), bytes);
}

/* My slice of my slot is read by nobody else until it is posted: once the
 * verdict is good, for the steps of an operation that differs don't count. */
static void finish_slice(comm *c)
{
    size_t begin, end;
    slice_of(c, c->rank, &begin, &end);
    char *to = c->n == 1 ? c->coll.recv : medium_of(c, c->rank);
    add_hosts_up(c, to + begin, end - begin);
    c->base.moves++;
}

static rg_status gather_slices(comm *c)
{
    const int lanes = c->across->spread.lanes;
    for (int k = 0; k < lanes; k++)
        if (!rg__native_posted(c, k, FLAG_OUT, 1))
            return RG_IN_PROGRESS;
    for (int k = 0; k < lanes && c->n > 1; k++) {
        size_t begin, end;
        slice_of(c, k, &begin, &end);
        rg__copy((char *)c->coll.recv + begin, medium_of(c, k) + begin,
                 end - begin);
    }
    c->last = 1;
    c->base.moves++;
    rg__native_post_end(c);
    return RG_OK;
}

/* ------------------------------------------------------------------ verdict */

static rg_status compare(comm *c)
{
    rg__coll joined = {0};
    const rg_status st = rg__native_compare(
        c->id, c->across->line, sizeof(said_line), c->set_n, &joined);
    c->base.joined = joined;
    return st;
}

static void tell(comm *c, bool differs)
{
    verdict *v = c->across->verdict;
    v->differs = differs;
    atomic_store_explicit(&v->seq, rg__native_seq(c->id, c->ops),
                          memory_order_release);
    rg__native_ring(c);
}

static rg_status go_on(comm *c)
{
    if (c->across->reach == SMALL)
        return RG_OK;
    if (c->across->reach == MEDIUM) {
        if (c->rank < c->across->spread.lanes)
            rg__native_post(c, FLAG_OUT, 1);
        c->advance = gather_slices;
    } else {
        rg__crossing_begin(c);
    }
    return RG_IN_PROGRESS;
}

static rg_status fail_together(comm *c, rg_status st)
{
    if (c->n > 1)
        memcpy(c->member[0].staging, c->across->line,
               sizeof(said_line) * (size_t)c->set_n);
    c->across->has_differed = true;
    tell(c, true);
    return st;
}

static rg_status blame_blocks(const comm *c)
{
    rg__link_break(c->across->exchange.from[0],
                   "a block of operation %u has not the data that its lines "
                   "say",
                   c->ops);
    return RG_IN_PROGRESS;
}

rg_status rg__verdict_find(comm *c)
{
    rg_status st = rg__exchange(c);
    if (st != RG_OK)
        return st;
    rg__exchange_note_lines(c);
    st = compare(c);
    if (st != RG_OK || c->coll.kind == RG__JOIN)
        return fail_together(c, st);
    if (!has_all_data(c))
        return blame_blocks(c);
    if (c->across->reach == SMALL)
        share_small(c);
    else if (c->across->reach == MEDIUM)
        finish_slice(c);
    tell(c, false);
    return go_on(c);
}

/* ----------------------------------------------------------- other members */

/* All know all lines then; a join, which has no data, ends so as well. */
static rg_status hear_difference(comm *c)
{
    memcpy(c->across->line, c->member[0].staging,
           sizeof(said_line) * (size_t)c->set_n);
    c->across->has_differed = true;
    const rg_status st = compare(c);
    return st != RG_OK || c->coll.kind == RG__JOIN
               ? st
               : rg__fail(RG_ERR_MISMATCH,
                          "members of set %u have started different "
                          "operations",
                          c->id);
}

/* OK: the verdict is there, and good. */
static rg_status hear_verdict(comm *c)
{
    const verdict *v = c->across->verdict;
    if (atomic_load_explicit(&v->seq, memory_order_acquire) !=
        rg__native_seq(c->id, c->ops))
        return RG_IN_PROGRESS;
    return v->differs == 0 ? RG_OK : hear_difference(c);
}

rg_status rg__verdict_await(comm *c)
{
    const rg_status st = hear_verdict(c);
    if (st != RG_OK)
        return st;
    c->base.moves++;
    if (c->across->reach == SMALL)
        copy_small(c);
    return go_on(c);
}

/* On hosts that have started another operation there may be nobody who answers
 * this lane, but lane 0 is answered everywhere. */
rg_status rg__verdict_find_beside(comm *c)
{
    exchange *e = &c->across->exchange;
    rg_status st = RG_OK;
    if (!e->is_complete) {
        st = rg__exchange(c);
        if (st == RG_OK && has_all_data(c))
            finish_slice(c);
    }
    if (st == RG_OK || st == RG_IN_PROGRESS)
        st = hear_verdict(c);
    if (st != RG_OK || !e->is_complete)
        return st == RG_OK ? RG_IN_PROGRESS : st;
    return has_all_data(c) ? go_on(c) : blame_blocks(c);
}
