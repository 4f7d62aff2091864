/* What hosts tell each other about an operation.
 *
 * Each host's block goes round by dissemination: in round r, lane 0 sends the
 * blocks that it has of its own host and those behind it, 2^r at most, to the
 * host 2^r before it. So each has all blocks after log2(hosts) rounds, and all
 * compute the same from them, small sums in the order of the hosts. A block
 * whose lines differ travels like any other, so that all learn of it. */
#include "sdk/transport/native/across.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/transport/native/reduce.h"

/* Where lane 0 puts results and lines for the local members. */
static char *result_of(const comm *c)
{
    return c->member[0].staging;
}

/* Does the data travel with the blocks? */
static bool is_small(const comm *c)
{
    const spread *s = &c->across->spread;
    const uint64_t shares = c->coll.kind == RG__ALLGATHER ? (uint64_t)s->n
                            : c->coll.kind == RG__BROADCAST
                                ? 1
                                : (uint64_t)s->hosts;
    return c->bytes <= SMALL_BYTES && c->bytes * shares <= SMALL_ALL;
}

/* Bytes of data in a host's block, given that all have said the same. */
static uint32_t data_bytes(const comm *c, int host)
{
    const spread *s = &c->across->spread;
    if (c->bytes == 0 || !is_small(c))
        return 0;
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        return (uint32_t)c->bytes;
    case RG__BROADCAST:
        return s->host_of[c->coll.root] == host ? (uint32_t)c->bytes : 0;
    case RG__ALLGATHER:
        return (uint32_t)c->bytes * (uint32_t)rg__spread_size(s, host);
    case RG__BARRIER:
        break;
    }
    return 0;
}

/* ---------------------------------------------------------------- my block */

static bool make_room(exchange *e, size_t bytes)
{
    if (bytes <= e->room)
        return true;
    char *store = realloc(e->store, bytes);
    if (store == NULL)
        return false;
    e->store = store;
    e->room = bytes;
    return true;
}

static bool is_uniform(const comm *c)
{
    for (int m = 1; m < c->n; m++)
        if (memcmp(&c->said[m].line, &c->said[0].line, sizeof(said_line)) != 0)
            return false;
    return true;
}

static void fill_data(const comm *c, char *data)
{
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        rg__native_small_sum(c, data);
        break;
    case RG__BROADCAST:
        memcpy(data, rg__native_small_of(c, c->root), c->bytes);
        break;
    case RG__ALLGATHER:
        for (int m = 0; m < c->n; m++)
            memcpy(data + (size_t)m * c->bytes, rg__native_small_of(c, m),
                   c->bytes);
        break;
    case RG__BARRIER:
        break;
    }
}

static rg_status make_block(comm *c)
{
    exchange *e = &c->across->exchange;
    const bool differs = !is_uniform(c);
    const block_head head = {
        .host = (uint32_t)c->across->spread.host,
        .lines = differs ? (uint32_t)c->n : 1,
        .data_bytes = differs ? 0 : data_bytes(c, c->across->spread.host)};
    const uint32_t bytes = rg__block_bytes(head.lines, head.data_bytes);
    if (!make_room(e, bytes))
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    memset(e->store + bytes - 8, 0, 8);
    memcpy(e->store, &head, sizeof head);
    char *lines = e->store + sizeof head;
    for (uint32_t m = 0; m < head.lines; m++)
        memcpy(lines + m * sizeof(said_line), &c->said[m].line,
               sizeof(said_line));
    if (head.data_bytes > 0)
        fill_data(c, lines + head.lines * sizeof(said_line));
    e->begin[0] = 0;
    e->blocks = 1;
    e->stored = bytes;
    e->differs = differs;
    return RG_OK;
}

/* ------------------------------------------------------------------ rounds */

/* Blocks that travel in this round. */
static int blocks_in(const comm *c, int round)
{
    const int hosts = c->across->spread.hosts, d = 1 << round;
    return d < hosts - d ? d : hosts - d;
}

/* Bytes of the first n blocks. */
static size_t bytes_before(const exchange *e, int n)
{
    return n < e->blocks ? e->begin[n] : e->stored;
}

static void send_round(comm *c)
{
    exchange *e = &c->across->exchange;
    rg__link *to = e->to[e->round];
    if (!e->has_begun) {
        const size_t bytes = bytes_before(e, blocks_in(c, e->round));
        rg__link_begin(to,
                       (frame){.kind = e->differs ? FRAME_POISON : FRAME_BLOCKS,
                               .index = (uint16_t)e->round,
                               .op = c->ops,
                               .bytes = (uint32_t)bytes});
        e->has_begun = true;
    }
    if (!e->has_sent && rg__link_flush(to, e->store) > 0) {
        e->has_sent = !to->is_sending;
        c->base.moves++;
    }
}

/* Does a block say as many lines as its host has members, or one for all? */
static bool is_block_right(const comm *c, const block *b, int host)
{
    return b->head.host == (uint32_t)host &&
           (b->head.lines == 1 ||
            b->head.lines ==
                (uint32_t)rg__spread_size(&c->across->spread, host));
}

/* Note the blocks that this round has brought; false: they are wrong. */
static bool take_blocks(comm *c, size_t bytes)
{
    const spread *s = &c->across->spread;
    exchange *e = &c->across->exchange;
    const size_t end = e->stored + bytes;
    for (int i = blocks_in(c, e->round); i > 0; i--) {
        block b;
        const int host = rg__spread_after(s, s->host, e->blocks);
        if (!rg__block_read(e->store + e->stored, end - e->stored, &b) ||
            !is_block_right(c, &b, host))
            return false;
        e->differs |= b.head.lines > 1;
        e->begin[e->blocks++] = e->stored;
        e->stored += b.bytes;
    }
    return e->stored == end;
}

static bool is_expected(const comm *c, const frame *head)
{
    return (head->kind == FRAME_BLOCKS || head->kind == FRAME_POISON) &&
           head->op == c->ops && head->index == c->across->exchange.round;
}

/* True once the round's blocks are here. */
static bool receive_round(comm *c)
{
    exchange *e = &c->across->exchange;
    rg__link *from = e->from[e->round];
    const frame *head = rg__link_head(from);
    if (head == NULL)
        return false;
    const size_t bytes = head->bytes;
    if (!is_expected(c, head) || !make_room(e, e->stored + bytes)) {
        rg__link_break(from,
                       "it sent a frame of operation %u, not the blocks "
                       "of operation %u",
                       head->op, c->ops);
        return false;
    }
    const size_t got = rg__link_read(from, e->store + e->stored + e->arrived,
                                     bytes - e->arrived);
    e->arrived += got;
    c->base.moves += got > 0;
    if (e->arrived < bytes)
        return false;
    e->arrived = 0;
    if (take_blocks(c, bytes))
        return true;
    rg__link_break(from, "it sent blocks that are none");
    return false;
}

/* ----------------------------------------------------------------- verdict */

static const char *data_of(const comm *c, int host)
{
    const spread *s = &c->across->spread;
    const exchange *e = &c->across->exchange;
    const int i = rg__spread_after(s, host, -s->host);
    block b;
    rg__block_read(e->store + e->begin[i], bytes_before(e, i + 1) - e->begin[i],
                   &b);
    return b.head.data_bytes == data_bytes(c, host) ? b.data : NULL;
}

static void note_lines(comm *c)
{
    const spread *s = &c->across->spread;
    const exchange *e = &c->across->exchange;
    for (int i = 0; i < s->hosts; i++) {
        const int host = rg__spread_after(s, s->host, i);
        block b;
        rg__block_read(e->store + e->begin[i],
                       bytes_before(e, i + 1) - e->begin[i], &b);
        for (int k = 0; k < rg__spread_size(s, host); k++)
            memcpy(&c->across->line[rg__spread_member(s, host, k)],
                   b.lines +
                       (b.head.lines == 1 ? 0 : k) * (int)sizeof(said_line),
                   sizeof(said_line));
    }
}

static rg_status compare(const comm *c)
{
    return rg__native_compare(c->id, c->across->line, sizeof(said_line),
                              c->across->spread.n);
}

static bool has_all_data(const comm *c)
{
    for (int h = 0; h < c->across->spread.hosts; h++)
        if (data_of(c, h) == NULL)
            return false;
    return true;
}

static void add_up(comm *c)
{
    const rg__coll *o = &c->coll;
    const size_t count = (size_t)o->count;
    rg__reduce(o->type, o->op, o->recv, data_of(c, 0), data_of(c, 1), count);
    for (int h = 2; h < c->across->spread.hosts; h++)
        rg__reduce(o->type, o->op, o->recv, o->recv, data_of(c, h), count);
    if (o->op == RG_AVG)
        rg__divide(o->type, o->recv, count, c->set_n);
}

static void place_all(comm *c)
{
    const spread *s = &c->across->spread;
    for (int h = 0; h < s->hosts; h++) {
        const char *data = data_of(c, h);
        for (int k = 0; k < rg__spread_size(s, h); k++)
            memcpy((char *)c->coll.recv +
                       (size_t)rg__spread_member(s, h, k) * c->bytes,
                   data + (size_t)k * c->bytes, c->bytes);
    }
}

/* My own result; returns its bytes. */
static size_t finish_small(comm *c)
{
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        add_up(c);
        return c->bytes;
    case RG__BROADCAST:
        if (c->coll.root != c->set_rank)
            memcpy(c->coll.recv,
                   data_of(c, c->across->spread.host_of[c->coll.root]),
                   c->bytes);
        return c->bytes;
    case RG__ALLGATHER:
        place_all(c);
        return c->bytes * (size_t)c->set_n;
    case RG__BARRIER:
        break;
    }
    return 0;
}

static void tell(comm *c, bool differs)
{
    verdict *v = c->across->verdict;
    v->differs = differs;
    atomic_store_explicit(&v->seq, rg__native_seq(c->id, c->ops),
                          memory_order_release);
    rg__native_ring(c);
}

/* Results of one inline datum stand in the verdict itself. */
static char *room_for(const comm *c, size_t bytes)
{
    return bytes <= INLINE_BYTES ? c->across->verdict->data : result_of(c);
}

static rg_status go_on(comm *c)
{
    if (c->bytes == 0 || is_small(c))
        return RG_OK;
    rg__crossing_begin(c);
    return RG_IN_PROGRESS;
}

static rg_status conclude(comm *c)
{
    note_lines(c);
    const rg_status st = compare(c);
    if (st != RG_OK) {
        memcpy(result_of(c), c->across->line,
               sizeof(said_line) * (size_t)c->set_n);
        tell(c, true);
        return st;
    }
    if (!has_all_data(c)) {
        rg__link_break(c->across->exchange.from[0],
                       "a block of operation %u has not the data that its "
                       "lines say",
                       c->ops);
        return RG_IN_PROGRESS;
    }
    if (is_small(c)) {
        const size_t bytes = c->bytes == 0 ? 0 : finish_small(c);
        if (c->n > 1 && bytes > 0)
            memcpy(room_for(c, bytes), c->coll.recv, bytes);
    }
    tell(c, false);
    return go_on(c);
}

rg_status rg__exchange(comm *c)
{
    exchange *e = &c->across->exchange;
    if (e->blocks == 0) {
        const rg_status st = make_block(c);
        if (st != RG_OK)
            return st;
        e->round = 0;
        e->has_begun = e->has_sent = false;
        e->arrived = 0;
    }
    while (e->round < e->rounds) {
        const int wanted = (1 << e->round) + blocks_in(c, e->round);
        send_round(c);
        if (e->blocks < wanted)
            receive_round(c);
        if (!e->has_sent || e->blocks < wanted)
            return RG_IN_PROGRESS;
        e->round++;
        e->has_begun = e->has_sent = false;
    }
    return conclude(c);
}

/* --------------------------------------------------------- other members */

static void copy_small(comm *c)
{
    const size_t bytes =
        c->coll.kind == RG__ALLGATHER ? c->bytes * (size_t)c->set_n : c->bytes;
    if (c->coll.kind != RG__BROADCAST || c->coll.root != c->set_rank)
        memcpy(c->coll.recv, room_for(c, bytes), bytes);
}

rg_status rg__exchange_await(comm *c)
{
    const verdict *v = c->across->verdict;
    if (atomic_load_explicit(&v->seq, memory_order_acquire) !=
        rg__native_seq(c->id, c->ops))
        return RG_IN_PROGRESS;
    c->base.moves++;
    if (v->differs != 0) {
        memcpy(c->across->line, result_of(c),
               sizeof(said_line) * (size_t)c->set_n);
        const rg_status st = compare(c);
        return st != RG_OK ? st
                           : rg__fail(RG_ERR_MISMATCH,
                                      "members of set %u have started "
                                      "different operations",
                                      c->id);
    }
    if (c->bytes > 0 && is_small(c))
        copy_small(c);
    return go_on(c);
}
