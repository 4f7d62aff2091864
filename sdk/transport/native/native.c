/* The native transport: posting and reading descriptors, and choosing the
 * algorithm. shm/shm_comm.h says how an operation runs in the shared memory of
 * one host, inter/inter.h over several, shm/layout.h where things lie. */
#include "sdk/transport/native/native.h"
#include "sdk/transport/inter/inter.h"
#include "sdk/transport/inter/schedule.h"
#include "sdk/transport/shm/pairwise.h"

#include <string.h>

#include "sdk/base/fail.h"

/* From this size on zero copy pays; below it, the small slots are as fast. */
#define ZERO_COPY_MIN ((uint64_t)2 << 10)

/* The caller is about to sleep on the bell. */
static void native_arm(rg__comm *world)
{
    const rg__native *c = (const rg__native *)world;
    if (c->shared->net != NULL)
        rg__net_arm(c->shared->net);
}

static rg__bell *native_bell(rg__comm *world)
{
    rg__native *c = (rg__native *)world;
    return c->member[c->rank].bell;
}

/* --------------------------------------------------------------- operations */

static rg_status no_data(rg__native *c)
{
    (void)c;
    return RG_OK;
}

static const rg__advance_fn zero_copy[RG__COLL_KINDS] = {
    [RG__ALLREDUCE] = rg__zero_copy_allreduce,
    [RG__REDUCE] = rg__zero_copy_allreduce,
    [RG__REDUCE_SCATTER] = rg__zero_copy_allreduce,
    [RG__REDUCE_SCATTERV] = rg__zero_copy_allreduce,
    [RG__BROADCAST] = rg__zero_copy_broadcast,
    [RG__ALLGATHER] = rg__zero_copy_allgather};

static const rg__advance_fn staged[RG__COLL_KINDS] = {
    [RG__ALLREDUCE] = rg__staged_allreduce,
    [RG__REDUCE] = rg__staged_allreduce,
    [RG__REDUCE_SCATTER] = rg__staged_reduce_scatter,
    [RG__REDUCE_SCATTERV] = rg__staged_reduce_scatter,
    [RG__BROADCAST] = rg__staged_broadcast,
    [RG__ALLGATHER] = rg__staged_allgather};

static rg__advance_fn choose(const rg__native *c)
{
    const rg__kind kind = c->coll.kind;
    if (c->bytes == 0)
        return no_data;
    if (c->bytes <= INLINE_BYTES)
        return rg__inline_descriptors;
    const bool is_zero_copy = rg__zero_copy_is_possible(c);
    if (c->bytes <= SMALL_BYTES &&
        !(is_zero_copy && rg__kind_adds(kind) && c->bytes >= ZERO_COPY_MIN))
        return rg__inline_slots;
    return is_zero_copy ? zero_copy[kind] : staged[kind];
}

/* Does the operation in flight go to other hosts? */
static bool crosses(const rg__native *c)
{
    return !rg__shm_stays(c);
}

static bool is_pairwise(const rg__native *c)
{
    return !crosses(c) && rg__pairwise_has(c->coll.kind);
}

/* The root among the members on this host. */
static int local_root(const rg__native *c)
{
    if (!crosses(c))
        return c->coll.root;
    const rg__topology *s = &c->inter->topology;
    for (int k = 0; k < c->n; k++)
        if (rg__topology_member(s, s->host, k) == c->coll.root)
            return k;
    return -1;
}

/* The bytes that one member contributes. */
static uint64_t bytes_of(const rg__native *c)
{
    const rg__coll *o = &c->coll;
    if (o->kind == RG__BARRIER || o->kind == RG__JOIN)
        return 0;
    const uint64_t bytes = o->count * rg_type_size(o->type);
    return rg__kind_deals(o->kind) ? bytes * (uint64_t)c->set_n : bytes;
}

static void post_descriptor(rg__native *c, uint64_t index)
{
    const rg__coll *o = rg__schedule_is_running(c) ? &c->user : &c->coll;
    rg__entry *mine = &c->member[c->rank].mailbox->entry[c->ops & 1];
    mine->posting.descriptor =
        (rg__descriptor){.kind = (uint8_t)o->kind,
                         .type = (uint8_t)o->type,
                         .op = (uint8_t)o->op,
                         .root = o->root,
                         .count = rg__kind_is_uneven(o->kind) ? 0 : o->count,
                         .tag = o->tag + index - 1,
                         .prescale = o->prescale,
                         .postscale = o->postscale};
    if (is_pairwise(c))
        rg__pairwise_publish(c);
    else
        rg__inline_publish(c);
    atomic_store_explicit(&mine->seq, rg__shm_seq(c->id, c->ops),
                          memory_order_release);
    rg__shm_ring(c);
}

/* Post the descriptor of a part; index: which part of c->user, from 1. */
static void begin(rg__native *c, const rg__coll *coll, uint64_t index)
{
    c->coll = *coll;
    c->has_begun = true;
    c->root = local_root(c);
    c->bytes = bytes_of(c);
    c->ops++;
    c->collected = 0;
    c->advance = NULL;
    rg__shm_rewind(c);
    if (is_pairwise(c))
        rg__pairwise_begin(c);
    if (crosses(c))
        rg__inter_begin(c);
    post_descriptor(c, index);
}

/* The next part of a schedule, if there is one. */
static void begin_part(rg__native *c)
{
    rg__coll part;
    const uint64_t index = rg__schedule_take(c, &part, &c->is_local);
    if (index > 0)
        begin(c, &part, index);
}

static rg_status native_start(rg__comm *base, const rg__coll *coll)
{
    rg__native *c = (rg__native *)base;
    if (coll->root < 0 || coll->root >= c->set_n)
        return rg__fail(RG_ERR_INVALID, "root %d is not a rank of %s",
                        coll->root, rg__set_words(c->id).text);
    c->has_begun = c->is_local = false;
    if (c->inter != NULL && rg__schedule_has(coll->kind)) {
        c->user = *coll;
        const rg_status st = rg__schedule_begin(c);
        begin_part(c);
        return st;
    }
    const rg_status st =
        rg__pairwise_has(coll->kind) ? rg__pairwise_make(c) : RG_OK;
    if (st == RG_OK)
        begin(c, coll, 1);
    return st;
}

static bool collect(rg__native *c)
{
    while (c->collected < c->n) {
        const rg__entry *entry =
            &c->member[c->collected].mailbox->entry[c->ops & 1];
        if (atomic_load_explicit(&entry->seq, memory_order_acquire) !=
            rg__shm_seq(c->id, c->ops))
            return false;
        memcpy(&c->posting[c->collected], &entry->posting,
               sizeof entry->posting);
        c->collected++;
    }
    return true;
}

static rg_status compare_and_choose(rg__native *c)
{
    if (crosses(c)) {
        c->advance = rg__inter_choose(c);
        return RG_OK;
    }
    const rg__descriptor *first = &c->posting[0].descriptor;
    const size_t apart = sizeof *c->posting;
    const rg_status st =
        c->is_local
            ? rg__descriptor_compare(c->id, first, apart, c->n, &c->base.joined)
            : rg__slip_compare(&c->slip, c->ops, c->id, first, apart, c->n,
                               &c->base.joined);
    if (st != RG_OK)
        return st;
    if (rg__pairwise_has(c->coll.kind))
        return rg__pairwise_choose(c);
    c->advance = choose(c);
    return RG_OK;
}

static rg_status advance(rg__native *c)
{
    if (c->advance == NULL) {
        if (!collect(c))
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

static rg_status test_part(rg__native *c)
{
    if (crosses(c))
        rg__inter_poll(c);
    const rg_status st = advance(c);
    if (st == RG_IN_PROGRESS)
        return st;
    c->has_begun = false;
    if (crosses(c))
        rg__inter_end(c);
    return st;
}

static rg_status test_composed(rg__native *c)
{
    rg__schedule_turn(c);
    rg_status st = c->has_begun ? test_part(c) : RG_OK;
    if (st == RG_OK)
        st = rg__schedule_next(c);
    if (st == RG_IN_PROGRESS)
        begin_part(c);
    else
        rg__schedule_end(c);
    return st;
}

static rg_status native_test(rg__comm *base)
{
    rg__native *c = (rg__native *)base;
    return rg__schedule_is_running(c) ? test_composed(c) : test_part(c);
}

static int set_rank_of(const rg__native *c, int m)
{
    return c->inter == NULL ? m
                            : rg__topology_member(&c->inter->topology,
                                                  c->inter->topology.host, m);
}

/* Members here that have not posted, whose memory has not arrived, or that are
 * a step behind; if there are none, members on other hosts. */
static int native_awaited(rg__comm *base, int *ranks, int room)
{
    const rg__native *c = (rg__native *)base;
    int n = 0;
    for (int m = 0; m < c->n && n < room && c->has_begun; m++) {
        const rg__entry *entry = &c->member[m].mailbox->entry[c->ops & 1];
        const bool has_posted =
            atomic_load_explicit(&entry->seq, memory_order_acquire) ==
            rg__shm_seq(c->id, c->ops);
        const uint32_t step = c->done + (c->done < c->last);
        const bool is_late = c->advance != NULL && c->last > 0 &&
                             !rg__shm_posted(c, m, FLAG_DONE, step);
        const bool is_unmapped =
            c->ops != 0 && c->member[m].lacks_map == c->ops;
        if (m != c->rank && (!has_posted || is_late || is_unmapped))
            ranks[n++] = set_rank_of(c, m);
    }
    return n > 0 || c->inter == NULL ? n : rg__inter_awaited(c, ranks, room);
}

static void native_goodbye(rg__comm *base)
{
    const rg__shared *sh = ((rg__native *)base)->shared;
    atomic_store(&rg__shm_bell_line(sh, sh->rank)->gone, RG__HAS_LEFT);
    if (sh->net != NULL)
        sh->net->is_ending = true; /* closing the links says so */
}

/* The value may be garbage: any process can overwrite it. */
static rg__gone gone_of(const rg__native *c, int world_rank)
{
    const uint32_t how =
        atomic_load(&rg__shm_bell_line(c->shared, world_rank)->gone);
    return how == RG__IS_LOST ? RG__IS_LOST
           : how != 0         ? RG__HAS_LEFT
                              : RG__IS_HERE;
}

/* For a rank on another host, this is known only if it is connected with this
 * one and its BYE has been read. */
static rg__gone native_gone(rg__comm *base, int rank)
{
    const rg__native *c = (rg__native *)base;
    for (int m = 0; m < c->n; m++)
        if (set_rank_of(c, m) == rank)
            return gone_of(c, c->member[m].rank);
    return rg__inter_has_left(c, rank) ||
                   (c->id == 0 && rg__native_lane_has_left(c->shared, rank))
               ? RG__HAS_LEFT
               : RG__IS_HERE;
}

/* Ranks of other hosts are not noted here. */
static void native_lost(rg__comm *world, int rank)
{
    const rg__shared *sh = ((rg__native *)world)->shared;
    uint32_t stays = RG__IS_HERE;
    if (rank >= 0 && rank < sh->size && sh->host[rank] == sh->host[sh->rank])
        atomic_compare_exchange_strong(&rg__shm_bell_line(sh, rank)->gone,
                                       &stays, RG__IS_LOST);
}

static rg__messages *native_messages(rg__comm *world)
{
    return ((rg__native *)world)->shared->messages;
}

const rg__transport rg__transport_native = {.size = sizeof(rg__transport),
                                            .name = "native",
                                            .open = rg__native_open,
                                            .split = rg__native_split,
                                            .is_vacant = rg__native_is_vacant,
                                            .start = native_start,
                                            .test = native_test,
                                            .bell = native_bell,
                                            .arm = native_arm,
                                            .awaited = native_awaited,
                                            .goodbye = native_goodbye,
                                            .gone = native_gone,
                                            .lost = native_lost,
                                            .messages = native_messages,
                                            .close = rg__native_close};
