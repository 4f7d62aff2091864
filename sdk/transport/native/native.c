/* The native transport: posting and reading lines, and choosing the algorithm.
 * native.h says how an operation runs in the shared memory of one host,
 * across.h over several, layout.h where things lie, open.c how comms come to
 * be. */
#include "sdk/transport/native/across.h"
#include "sdk/transport/native/compose.h"
#include "sdk/transport/native/pairs.h"

#include <string.h>

#include "sdk/base/fail.h"

/* Direct copies pay from here on; below, the small slots are as quick. */
#define DIRECT_MIN ((uint64_t)2 << 10)

/* The caller is about to sleep on the bell. */
static void native_arm(rg__comm *world)
{
    const comm *c = (const comm *)world;
    if (c->shared->net != NULL)
        rg__net_arm(c->shared->net);
}

static rg__bell *native_bell(rg__comm *world)
{
    comm *c = (comm *)world;
    return c->member[c->rank].bell;
}

/* --------------------------------------------------------------- the flags */

void rg__native_ring(comm *c)
{
    atomic_thread_fence(memory_order_seq_cst); /* of what was posted */
    for (int m = 0; m < c->n; m++)
        if (m != c->rank)
            rg__bell_ring_for(c->member[m].bell, rg__set_bit(c->id));
}

static _Atomic uint64_t *flag_of(flags *f, flag which)
{
    return which == FLAG_IN ? &f->in : which == FLAG_OUT ? &f->out : &f->done;
}

static void store_flag(comm *c, flag which, uint32_t step)
{
    atomic_store_explicit(flag_of(&c->member[c->rank].lines->flags, which),
                          rg__native_seq(c->id, c->steps + step),
                          memory_order_release);
}

void rg__native_post(comm *c, flag which, uint32_t step)
{
    store_flag(c, which, step);
    rg__native_ring(c);
}

void rg__native_post_end(comm *c)
{
    store_flag(c, FLAG_IN, c->last);
    store_flag(c, FLAG_OUT, c->last);
    store_flag(c, FLAG_DONE, c->last);
    rg__native_ring(c);
}

bool rg__native_posted(const comm *c, int m, flag which, uint32_t step)
{
    const uint64_t seq = atomic_load_explicit(
        flag_of(&c->member[m].lines->flags, which), memory_order_acquire);
    const uint32_t at = seq >> 32 == c->id ? (uint32_t)seq : 0;
    return (int32_t)(at - (c->steps + step)) >= 0;
}

bool rg__native_all_posted(const comm *c, flag which, uint32_t step)
{
    for (int m = 0; m < c->n; m++)
        if (!rg__native_posted(c, m, which, step))
            return false;
    return true;
}

/* --------------------------------------------------------------- operations */

bool rg__native_scatters(rg__kind kind)
{
    return kind == RG__REDUCE_SCATTER || kind == RG__REDUCE_SCATTERV;
}

bool rg__native_adds(rg__kind kind)
{
    return kind == RG__ALLREDUCE || kind == RG__AGREE || kind == RG__REDUCE ||
           rg__native_scatters(kind);
}

void rg__native_part(const comm *c, int m, uint64_t *begin_p, uint64_t *end_p)
{
    const rg__coll *o = &c->coll;
    uint64_t at = 0;
    for (int i = 0; i < m && o->kind == RG__REDUCE_SCATTERV; i++)
        at += o->recv_counts[i];
    if (o->kind == RG__REDUCE_SCATTER)
        at = (uint64_t)m * o->count;
    const uint64_t count =
        o->kind == RG__REDUCE_SCATTERV ? o->recv_counts[m] : o->count;
    *begin_p = at * rg_type_size(o->type);
    *end_p = (at + count) * rg_type_size(o->type);
}

static rg_status no_data(comm *c)
{
    (void)c;
    return RG_OK;
}

static const advance_fn direct[RG__COLL_KINDS] = {
    [RG__ALLREDUCE] = rg__native_direct_allreduce,
    [RG__REDUCE] = rg__native_direct_allreduce,
    [RG__REDUCE_SCATTER] = rg__native_direct_allreduce,
    [RG__REDUCE_SCATTERV] = rg__native_direct_allreduce,
    [RG__BROADCAST] = rg__native_direct_broadcast,
    [RG__ALLGATHER] = rg__native_direct_allgather};

static const advance_fn staged[RG__COLL_KINDS] = {
    [RG__ALLREDUCE] = rg__native_staged_allreduce,
    [RG__REDUCE] = rg__native_staged_allreduce,
    [RG__REDUCE_SCATTER] = rg__native_staged_reduce_scatter,
    [RG__REDUCE_SCATTERV] = rg__native_staged_reduce_scatter,
    [RG__BROADCAST] = rg__native_staged_broadcast,
    [RG__ALLGATHER] = rg__native_staged_allgather};

static advance_fn choose(const comm *c)
{
    const rg__kind kind = c->coll.kind;
    if (c->bytes == 0)
        return no_data;
    if (c->bytes <= INLINE_BYTES)
        return rg__native_inline;
    const bool is_direct = rg__native_is_direct(c);
    if (c->bytes <= SMALL_BYTES &&
        !(is_direct && rg__native_adds(kind) && c->bytes >= DIRECT_MIN))
        return rg__native_small_read;
    return is_direct ? direct[kind] : staged[kind];
}

/* The root among the members on this host. */
static int local_root(const comm *c)
{
    if (c->across == NULL)
        return c->coll.root;
    const spread *s = &c->across->spread;
    for (int k = 0; k < c->n; k++)
        if (rg__spread_member(s, s->host, k) == c->coll.root)
            return k;
    return -1;
}

/* Of what one member gives. */
static uint64_t bytes_of(const comm *c)
{
    const rg__coll *o = &c->coll;
    if (o->kind == RG__BARRIER || o->kind == RG__JOIN)
        return 0;
    const uint64_t bytes = o->count * rg_type_size(o->type);
    return o->kind == RG__REDUCE_SCATTER ? bytes * (uint64_t)c->set_n : bytes;
}

static double scale_of(double scale)
{
    return scale == 1 || scale == 0 ? 0 : scale;
}

static void post_line(comm *c, uint64_t index)
{
    const rg__coll *o = rg__compose_is_running(c) ? &c->user : &c->coll;
    entry *mine = &c->member[c->rank].lines->line[c->ops & 1];
    mine->said.line =
        (said_line){.kind = (uint8_t)o->kind,
                    .type = (uint8_t)o->type,
                    .op = (uint8_t)o->op,
                    .root = o->root,
                    .count = rg__pairs_is_uneven(o->kind) ? 0 : o->count,
                    .tag = o->tag + index - 1,
                    .prescale = scale_of(o->prescale),
                    .postscale = scale_of(o->postscale)};
    if (rg__pairs_has(c->coll.kind))
        rg__pairs_publish(c);
    else
        rg__native_publish(c);
    atomic_store_explicit(&mine->seq, rg__native_seq(c->id, c->ops),
                          memory_order_release);
    rg__native_ring(c);
}

void rg__native_begin(comm *c, const rg__coll *coll, uint64_t index)
{
    c->coll = *coll;
    c->has_begun = true;
    c->root = local_root(c);
    c->bytes = bytes_of(c);
    c->ops++;
    c->heard = 0;
    c->advance = NULL;
    c->in = c->out = c->done = c->last = 0;
    c->at = 0;
    c->peer = 0;
    if (rg__pairs_has(coll->kind))
        rg__pairs_begin(c);
    if (c->across != NULL)
        rg__across_begin(c);
    post_line(c, index);
}

static rg_status native_start(rg__comm *base, const rg__coll *coll)
{
    comm *c = (comm *)base;
    if (coll->root < 0 || coll->root >= c->set_n)
        return rg__fail(RG_ERR_INVALID, "root %d is not a rank of set %u",
                        coll->root, c->id);
    c->has_begun = false;
    if (c->across != NULL && rg__compose_has(coll->kind)) {
        c->user = *coll;
        return rg__compose_begin(c);
    }
    const rg_status st = rg__pairs_has(coll->kind) ? rg__pairs_make(c) : RG_OK;
    if (st == RG_OK)
        rg__native_begin(c, coll, 1);
    return st;
}

static bool hear(comm *c)
{
    while (c->heard < c->n) {
        const entry *line = &c->member[c->heard].lines->line[c->ops & 1];
        if (atomic_load_explicit(&line->seq, memory_order_acquire) !=
            rg__native_seq(c->id, c->ops))
            return false;
        memcpy(&c->said[c->heard], &line->said, sizeof line->said);
        c->heard++;
    }
    return true;
}

static rg_status compare_and_choose(comm *c)
{
    if (c->across != NULL) {
        c->advance = rg__across_choose(c);
        return RG_OK;
    }
    const rg_status st = rg__native_compare(
        c->id, &c->said[0].line, sizeof *c->said, c->n, &c->base.joined);
    if (st != RG_OK)
        return st;
    if (rg__pairs_has(c->coll.kind))
        return rg__pairs_choose(c);
    c->advance = choose(c);
    return RG_OK;
}

static rg_status advance(comm *c)
{
    if (c->advance == NULL) {
        if (!hear(c))
            return RG_IN_PROGRESS;
        const rg_status st = compare_and_choose(c);
        if (st != RG_OK)
            return st;
    }
    const rg_status st = c->advance(c);
    if (st == RG_OK)
        c->steps += c->last;
    return st;
}

/* Advance the part in flight. */
static rg_status test_part(comm *c)
{
    if (c->across != NULL)
        rg__across_poll(c);
    const rg_status st = advance(c);
    if (st == RG_IN_PROGRESS)
        return st;
    c->has_begun = false;
    if (c->across != NULL)
        rg__across_end(c);
    return st;
}

static rg_status test_composed(comm *c)
{
    rg_status st = c->has_begun ? test_part(c) : RG_OK;
    if (st == RG_OK)
        st = rg__compose_next(c);
    if (st != RG_IN_PROGRESS)
        rg__compose_end(c);
    return st;
}

static rg_status native_test(rg__comm *base)
{
    comm *c = (comm *)base;
    return rg__compose_is_running(c) ? test_composed(c) : test_part(c);
}

static int set_rank_of(const comm *c, int m)
{
    return c->across == NULL ? m
                             : rg__spread_member(&c->across->spread,
                                                 c->across->spread.host, m);
}

/* Who has not said yet what it has started, or whose memory has not arrived
 * here; else who has not come as far as I have. */
static int native_awaited(rg__comm *base, int *ranks, int room)
{
    const comm *c = (comm *)base;
    int n = 0;
    for (int m = 0; m < c->n && n < room; m++) {
        const entry *line = &c->member[m].lines->line[c->ops & 1];
        const bool has_said =
            atomic_load_explicit(&line->seq, memory_order_acquire) ==
            rg__native_seq(c->id, c->ops);
        const uint32_t step = c->done + (c->done < c->last);
        const bool is_late = c->advance != NULL && c->last > 0 &&
                             !rg__native_posted(c, m, FLAG_DONE, step);
        const bool is_unmapped =
            c->ops != 0 && c->member[m].lacks_map == c->ops;
        if (m != c->rank && (!has_said || is_late || is_unmapped))
            ranks[n++] = set_rank_of(c, m);
    }
    return n > 0 || c->across == NULL ? n : rg__across_awaited(c, ranks, room);
}

static void native_farewell(rg__comm *base)
{
    const shared *sh = ((comm *)base)->shared;
    atomic_store(&rg__native_bell_line(sh, sh->rank)->has_left, 1);
    if (sh->net != NULL)
        sh->net->is_ending = true; /* closing the links says so */
}

/* Of another host: where it is connected with this rank, and has come to read
 * it. */
static bool native_has_left(rg__comm *base, int rank)
{
    const comm *c = (comm *)base;
    for (int m = 0; m < c->n; m++)
        if (set_rank_of(c, m) == rank)
            return atomic_load(
                       &rg__native_bell_line(c->shared, c->member[m].rank)
                            ->has_left) != 0;
    return rg__across_has_left(c, rank);
}

const rg__transport rg__transport_native = {.size = sizeof(rg__transport),
                                            .name = "native",
                                            .open = rg__native_open,
                                            .split = rg__native_split,
                                            .start = native_start,
                                            .test = native_test,
                                            .bell = native_bell,
                                            .arm = native_arm,
                                            .awaited = native_awaited,
                                            .farewell = native_farewell,
                                            .has_left = native_has_left,
                                            .close = rg__native_close};
