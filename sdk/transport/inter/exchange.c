/* What hosts tell each other about an operation.
 *
 * If their number is a power of two, hosts exchange all blocks that they have
 * with a partner in each round: in pairs, pairs of pairs and so on. Data that
 * are added up are so at once, each partner in the same order, so a host sends
 * the sum so far in its own block, and no data in the others.
 *
 * Data with a part for each host are halved in each round: a host hands its
 * partner what is for hosts on the partner's side, of all blocks that it has,
 * and keeps the rest.
 *
 * Otherwise each host's block goes round by dissemination: in round r, a rail
 * sends the blocks that it has of its own host and those after it, 2^r at most,
 * to the host 2^r before it.
 *
 * So each has all blocks after log2(hosts) rounds, and all compute the same
 * from them. A block whose descriptors differ travels like any other, so that
 * all learn of it. Where data are missing, none are added, and all learn that.
 */
#include "sdk/transport/inter/inter.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/transport/reduce.h"

/* ------------------------------------------------------- frames of the past */

/* Frames of an operation that differed, which no member waited for. */
static void skip(rg__link *l)
{
    char away[4096];
    if (l->body_left == 0)
        rg__link_take(l);
    while (l->has_head && rg__link_read(l, away, sizeof away) > 0)
        ;
}

const rg__frame *rg__exchange_head(rg__native *c, rg__link *l)
{
    const rg__frame *head = rg__link_head(l);
    while (head != NULL && c->inter->has_differed &&
           (int32_t)(head->op - c->inter->ops) < 0) {
        skip(l);
        head = l->has_head ? NULL : rg__link_head(l);
    }
    return head;
}

/* ---------------------------------------------------------------- my block */

/* Those of half of the hosts, which may all name themselves as the root. */
_Static_assert(MEMBERS_MAX / 2 *
                       (sizeof(rg__block_head) + sizeof(rg__descriptor) +
                        SMALL_ALL + 7) <=
                   BLOCKS_MAX,
               "a round of blocks");

static bool make_room(rg__blocks *b, size_t bytes)
{
    if (bytes <= b->room)
        return true;
    char *at = realloc(b->at, bytes);
    if (at == NULL)
        return false;
    b->at = at;
    b->room = bytes;
    return true;
}

static bool is_uniform(const rg__native *c)
{
    for (int m = 1; m < c->n; m++)
        if (memcmp(&c->posting[m].descriptor, &c->posting[0].descriptor,
                   sizeof(rg__descriptor)) != 0)
            return false;
    return true;
}

static rg_status make_block(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    const bool differs = !is_uniform(c);
    const rg__block_head head = {
        .host = (uint32_t)c->inter->topology.host,
        .descriptors = differs ? (uint32_t)c->n : 1,
        .data_bytes =
            differs ? 0 : rg__payload_bytes(c, c->inter->topology.host)};
    const uint32_t bytes = rg__block_bytes(head.descriptors, head.data_bytes);
    if (!make_room(&e->store, bytes))
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    memset(e->store.at + bytes - 8, 0, 8);
    memcpy(e->store.at, &head, sizeof head);
    char *descriptors = e->store.at + sizeof head;
    for (uint32_t m = 0; m < head.descriptors; m++)
        memcpy(descriptors + m * sizeof(rg__descriptor),
               &c->posting[m].descriptor, sizeof(rg__descriptor));
    if (head.data_bytes > 0)
        rg__payload_fill(c, descriptors +
                                head.descriptors * sizeof(rg__descriptor));
    e->begin[0] = 0;
    e->blocks = 1;
    e->stored = bytes;
    e->differs = differs;
    e->halves = rg__kind_deals(c->coll.kind);
    return RG_OK;
}

/* ------------------------------------------------------------------ rounds */

/* Blocks that travel in this round. */
static int blocks_in(const rg__native *c, int round)
{
    const int hosts = c->inter->topology.hosts, d = 1 << round;
    return d < hosts - d ? d : hosts - d;
}

/* Bytes of the first n blocks. */
static size_t bytes_before(const rg__exchange *e, int n)
{
    return n < e->blocks ? e->begin[n] : e->stored;
}

static rg__block block_at(const rg__exchange *e, int i)
{
    rg__block b;
    rg__block_read(e->store.at + e->begin[i],
                   bytes_before(e, i + 1) - e->begin[i], &b);
    return b;
}

/* Put a block with `bytes` of its data, from `skip` on; `to` may be where it
 * is, or before. Returns its bytes. */
static size_t put(char *to, const rg__block *b, uint32_t skip, uint32_t bytes)
{
    rg__block_head head = b->head;
    const size_t ahead =
        sizeof head + head.descriptors * sizeof(rg__descriptor);
    const size_t all = rg__block_bytes(head.descriptors, bytes);
    head.data_bytes = bytes;
    memcpy(to, &head, sizeof head);
    memmove(to + sizeof head, b->descriptors, ahead - sizeof head);
    memmove(to + ahead, b->data + skip, bytes);
    memset(to + ahead + bytes, 0, all - ahead - bytes);
    return all;
}

static void cut_data(rg__exchange *e, int i)
{
    const rg__block b = block_at(e, i);
    char *at = e->store.at + e->begin[i];
    const size_t after = e->begin[i] + b.bytes;
    const size_t all = put(at, &b, 0, 0);
    memmove(at + all, e->store.at + after, e->stored - after);
    for (int later = i + 1; later < e->blocks; later++)
        e->begin[later] -= b.bytes - all;
    e->stored -= b.bytes - all;
}

/* Each block moves once, since there may be a thousand. Returns how many bytes
 * are for the partner; 0: there is no memory. */
static size_t halve(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    const bool is_upper = (c->inter->topology.host >> e->round & 1) != 0;
    size_t bytes = 0, kept = 0;
    if (!make_room(&e->halved, e->stored))
        return 0;
    for (int i = 0; i < e->blocks; i++) {
        const rg__block b = block_at(e, i);
        const uint32_t half = b.head.data_bytes / 2;
        bytes += put(e->halved.at + bytes, &b, is_upper ? 0 : half, half);
        e->begin[i] = kept;
        kept += put(e->store.at + kept, &b, is_upper ? half : 0, half);
    }
    e->stored = kept;
    return bytes;
}

static const char *sent_from(const rg__exchange *e)
{
    return e->halves ? e->halved.at : e->store.at;
}

static void send_round(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    rg__link *to = e->to[e->round];
    if (!e->has_begun) {
        const size_t bytes =
            e->halves ? halve(c) : bytes_before(e, blocks_in(c, e->round));
        if (bytes == 0) {
            rg__link_break(to, "there is no memory for what it gets");
            return;
        }
        rg__link_begin(
            to, (rg__frame){.kind = e->differs ? FRAME_POISON : FRAME_BLOCKS,
                            .index = (uint16_t)e->round,
                            .op = c->inter->ops,
                            .bytes = (uint32_t)bytes});
        e->has_begun = true;
    }
    if (!e->has_sent && rg__link_flush(to, sent_from(e)) > 0) {
        e->has_sent = !to->is_sending;
        c->base.moves++;
    }
}

/* Has a block a descriptor for each member of its host, or one for all? */
static bool is_block_right(const rg__native *c, const rg__block *b, int host)
{
    return b->head.host == (uint32_t)host &&
           (b->head.descriptors == 1 ||
            b->head.descriptors ==
                (uint32_t)rg__topology_size(&c->inter->topology, host));
}

/* Note the blocks that came in this round; false: they are malformed. */
static bool take_blocks(rg__native *c, size_t bytes)
{
    const rg__topology *s = &c->inter->topology;
    rg__exchange *e = &c->inter->exchange;
    const size_t end = e->stored + bytes;
    for (int i = blocks_in(c, e->round); i > 0; i--) {
        rg__block b;
        const int host = rg__topology_at(s, e->blocks);
        if (!rg__block_read(e->store.at + e->stored, end - e->stored, &b) ||
            !is_block_right(c, &b, host))
            return false;
        e->differs |= b.head.descriptors > 1;
        e->begin[e->blocks++] = e->stored;
        e->stored += b.bytes;
    }
    return e->stored == end;
}

static bool is_expected(const rg__native *c, const rg__frame *head)
{
    return (head->kind == FRAME_BLOCKS || head->kind == FRAME_POISON) &&
           head->op == c->inter->ops && head->index == c->inter->exchange.round;
}

/* Rail 0 has told the members there that this operation differs, and soon tells
 * us; only the other rails can be overtaken. */
static bool is_ahead(const rg__native *c, const rg__frame *head)
{
    return c->rank > 0 && (int32_t)(head->op - c->inter->ops) > 0;
}

/* True once the round's blocks are here. */
static bool receive_round(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    rg__link *from = e->from[e->round];
    const rg__frame *head = rg__exchange_head(c, from);
    if (head == NULL || is_ahead(c, head))
        return false;
    const size_t bytes = head->bytes;
    if (!is_expected(c, head) || !make_room(&e->store, e->stored + bytes)) {
        rg__link_break(from,
                       "it sent a frame of operation %u, not the blocks "
                       "of operation %u",
                       head->op, c->inter->ops);
        return false;
    }
    const size_t got = rg__link_read(from, e->store.at + e->stored + e->arrived,
                                     bytes - e->arrived);
    e->arrived += got;
    c->base.moves += got > 0;
    if (e->arrived < bytes)
        return false;
    e->arrived = 0;
    if (take_blocks(c, bytes))
        return true;
    rg__link_break(from, "it sent malformed blocks");
    return false;
}

/* --------------------------------------------------------------------- sums */

/* The partner's sum goes into mine; both of us take the lower host's first. */
static void add_partners(rg__native *c)
{
    const rg__coll *o = &c->coll;
    rg__exchange *e = &c->inter->exchange;
    const int d = 1 << e->round;
    const rg__block mine = block_at(e, 0), theirs = block_at(e, d);
    const bool is_lower = (c->inter->topology.host & d) == 0;
    char *sum = e->store.at + (mine.data - e->store.at);
    if (mine.head.data_bytes != theirs.head.data_bytes)
        cut_data(e, 0);
    else
        rg__reduce(o->type, o->op, sum, is_lower ? sum : theirs.data,
                   is_lower ? theirs.data : sum,
                   mine.head.data_bytes / rg_type_size(o->type));
    cut_data(e, d);
}

bool rg__exchange_adds(const rg__native *c)
{
    return rg__topology_pairs(&c->inter->topology) &&
           (c->coll.kind == RG__ALLREDUCE || c->coll.kind == RG__AGREE ||
            c->coll.kind == RG__REDUCE_SCATTER);
}

/* ----------------------------------------------------------------- in whole */

void rg__exchange_begin(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    e->blocks = e->round = 0;
    e->has_begun = e->has_sent = e->is_complete = false;
    e->arrived = 0;
}

bool rg__exchange_lets_begin(const rg__native *c, bool *may_begin)
{
    const rg__exchange *e = &c->inter->exchange;
    for (int r = 0; !*may_begin && r < e->rounds; r++)
        while (e->to[r]->is_sending)
            if (rg__link_flush(e->to[r], sent_from(e)) == 0)
                return false;
    return *may_begin = true;
}

static void go_rounds(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    while (e->round < e->rounds) {
        const int wanted = (1 << e->round) + blocks_in(c, e->round);
        send_round(c);
        if (e->blocks < wanted)
            receive_round(c);
        if (!e->has_sent || e->blocks < wanted)
            return;
        if (rg__exchange_adds(c))
            add_partners(c);
        e->round++;
        e->has_begun = e->has_sent = false;
    }
    e->is_complete = true;
}

rg_status rg__exchange_go_on(rg__native *c)
{
    rg__exchange *e = &c->inter->exchange;
    if (e->blocks == 0) {
        bool may_begin = false;
        const rg_status st = rg__exchange_lets_begin(c, &may_begin)
                                 ? make_block(c)
                                 : RG_IN_PROGRESS;
        if (st != RG_OK)
            return st;
    }
    go_rounds(c);
    return e->is_complete ? RG_OK : RG_IN_PROGRESS;
}

static rg__block block_of(const rg__native *c, int host)
{
    const rg__topology *s = &c->inter->topology;
    return block_at(&c->inter->exchange,
                    rg__topology_pairs(s)
                        ? host ^ s->host
                        : rg__topology_after(s, host, -s->host));
}

const char *rg__exchange_data(const rg__native *c, int host)
{
    const rg__block b = block_of(c, host);
    return b.head.data_bytes == rg__payload_share(c, host) ? b.data : NULL;
}

void rg__exchange_collect(rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    for (int host = 0; host < s->hosts; host++) {
        const rg__block b = block_of(c, host);
        const size_t apart =
            b.head.descriptors == 1 ? 0 : sizeof(rg__descriptor);
        for (int k = 0; k < rg__topology_size(s, host); k++)
            memcpy(&c->inter->descriptor[rg__topology_member(s, host, k)],
                   b.descriptors + (size_t)k * apart, sizeof(rg__descriptor));
    }
}
