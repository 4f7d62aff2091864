/* A large reduce_scatter over several hosts, in chunks of all parts:
 *
 *   sum    the members of a host add up what they have for each member of the
 *          world; member k here makes the sums for the members k, k + n, .. of
 *          each host, n being the members here     (a reduce_scatter of theirs)
 *   send   each sum goes straight to its member                      (pairs.c)
 *   add    a member adds what has come from all hosts, in their order
 *
 * The next chunk is summed while one is on its way. Each host sends each part
 * of the others once, already summed, which is the least that it can send. */
#include "sdk/transport/inter/schedule_parts.h"

#include <stdlib.h>

#include "sdk/base/least.h"
#include "sdk/transport/reduce.h"
#include "sdk/base/fail.h"
#include "sdk/transport/shm/pairwise.h"

#define SCRATCH_BYTES ((uint64_t)8 << 20)
#define LEAST_BYTES   ((uint64_t)16 << 10) /* smallest chunk of a part */
#define MOST_BYTES    ((uint64_t)512 << 10)
#define AHEAD         2u /* chunks in scratch memory at a time */

struct rg__scatter {
    uint64_t *begin;   /* begin of each part, and the last end; owned */
    int *slot_begin;   /* by host: its first slot for sums; hosts + 1; owned */
    uint64_t *counts;  /* what each member here sums, then places; owned */
    uint64_t most;     /* most elements of a part in a chunk */
    size_t slot_bytes; /* bytes of a slot */
    uint32_t chunks, summed, sent, received, added;
    int host, first;   /* the next sums of chunk `summed` are for this host,
                          from this member on */
    uint64_t added_at; /* elements done in chunk `added` */
};

static const rg__topology *topology(const rg__native *c)
{
    return &c->inter->topology;
}

/* -------------------------------------------------------------------- slots */

static char *slot(const rg__native *c, uint32_t chunk, int i)
{
    const rg__scatter *x = c->schedule->scatter;
    const int hosts = topology(c)->hosts;
    const size_t each = (size_t)(x->slot_begin[hosts] + hosts);
    return c->schedule->scratch +
           (chunk % AHEAD * each + (size_t)i) * x->slot_bytes;
}

/* The slot of this host's sum for a host's k-th member, if I make it. */
static char *sum_slot(const rg__native *c, uint32_t chunk, int host, int k)
{
    const rg__scatter *x = c->schedule->scatter;
    return slot(c, chunk, x->slot_begin[host] + k / c->n);
}

/* The slot for the sum that comes from a host. */
static char *arrival_slot(const rg__native *c, uint32_t chunk, int host)
{
    const rg__scatter *x = c->schedule->scatter;
    return slot(c, chunk, x->slot_begin[topology(c)->hosts] + host);
}

/* Where a chunk of rank r's part begins in send; its elements. */
static uint64_t chunk_begin(const rg__native *c, uint32_t chunk, int r)
{
    const rg__scatter *x = c->schedule->scatter;
    return rg__least(x->begin[r] + chunk * x->most, x->begin[r + 1]);
}

static uint64_t chunk_count(const rg__native *c, uint32_t chunk, int r)
{
    const rg__scatter *x = c->schedule->scatter;
    return rg__least(x->begin[r + 1] - chunk_begin(c, chunk, r), x->most);
}

/* ---------------------------------------------------------------------- sum */

/* A member that is alone on its host sends its data from where they are. */
static bool is_sent_as_it_is(const rg__native *c, int host)
{
    const rg__coll *o = &c->user;
    return c->n == 1 && host != topology(c)->host &&
           (o->prescale == 0 || o->prescale == 1) &&
           rg__held_down(o, c->set_n) == 1;
}

static const char *sent_at(const rg__native *c, uint32_t chunk, int host, int k)
{
    const int r = rg__topology_member(topology(c), host, k);
    return is_sent_as_it_is(c, host)
               ? (const char *)c->user.send +
                     chunk_begin(c, chunk, r) * rg__element(c)
               : sum_slot(c, chunk, host, k);
}

static void sum_alone(rg__native *c, int host, int k)
{
    const uint32_t chunk = c->schedule->scatter->summed;
    const int r = rg__topology_member(topology(c), host, k);
    const void *src =
        (const char *)c->user.send + chunk_begin(c, chunk, r) * rg__element(c);
    if (is_sent_as_it_is(c, host))
        return;
    rg__combine(&c->user, sum_slot(c, chunk, host, k), &src, 1,
                (size_t)chunk_count(c, chunk, r), -c->set_n);
    c->base.moves++;
}

/* The members here make one sum each, for the members of a host from k on. */
static rg_status sum_together(rg__native *c, int host, int k)
{
    rg__scatter *x = c->schedule->scatter;
    const rg__topology *s = topology(c);
    uint64_t *counts = x->counts, *places = counts + c->n, all = 0;
    for (int m = 0; m < c->n; m++) {
        const bool is_one = k + m < rg__topology_size(s, host);
        const int r = is_one ? rg__topology_member(s, host, k + m) : 0;
        counts[m] = is_one ? chunk_count(c, x->summed, r) : 0;
        places[m] = is_one ? chunk_begin(c, x->summed, r) : 0;
        all += counts[m];
    }
    const rg__coll part = {.kind = RG__REDUCE_SCATTERV,
                           .type = c->user.type,
                           .op = c->user.op,
                           .count = x->begin[c->set_n],
                           .send = c->user.send,
                           .recv = sum_slot(c, x->summed, host, k),
                           .prescale = c->user.prescale,
                           .postscale = c->user.postscale,
                           .recv_counts = counts,
                           .recv_places = places};
    return all == 0 ? RG_OK : rg__schedule_begin_local(c, &part);
}

static rg_status sum_next(rg__native *c)
{
    rg__scatter *x = c->schedule->scatter;
    const rg__topology *s = topology(c);
    const int host = x->host, k = x->first;
    rg_status st = RG_OK;
    if (c->n == 1)
        sum_alone(c, host, k);
    else
        st = sum_together(c, host, k);
    x->first += c->n;
    if (x->first >= rg__topology_size(s, host)) {
        x->first = 0;
        x->host++;
    }
    if (x->host == s->hosts) {
        x->host = 0;
        x->summed++;
    }
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

/* --------------------------------------------------------------------- send */

/* Exchange with a host: its members get what I have summed for them, and one of
 * them sends the sum that it has made for me. */
static rg_status pair_with_host(rg__native *c, uint32_t chunk, int host)
{
    const rg__topology *s = topology(c);
    const int n = rg__topology_size(s, host);
    rg__pair in = {.member = rg__topology_member(s, host, c->rank % n),
                   .in = arrival_slot(c, chunk, host),
                   .in_bytes =
                       chunk_count(c, chunk, c->set_rank) * rg__element(c)};
    rg_status st = c->rank < n ? RG_OK : rg__pairs_add(c, &in);
    for (int k = c->rank; k < n && st == RG_OK; k += c->n) {
        rg__pair p = k == c->rank ? in : (rg__pair){0};
        p.member = rg__topology_member(s, host, k);
        p.out = sent_at(c, chunk, host, k);
        p.out_bytes = chunk_count(c, chunk, p.member) * rg__element(c);
        st = rg__pairs_add(c, &p);
    }
    return st;
}

static rg_status send_chunk(rg__native *c)
{
    rg__scatter *x = c->schedule->scatter;
    const rg__topology *s = topology(c);
    rg_status st = rg__pairs_begin(c, x->slot_begin[s->hosts] + s->hosts);
    for (int turn = 0; turn < rg__pairwise_turns(s->hosts) && st == RG_OK;
         turn++) {
        const int host = rg__pairwise_partner(s->hosts, s->host, turn);
        if (host != s->host)
            st = pair_with_host(c, x->sent, host);
    }
    x->sent++;
    c->base.moves++;
    return st;
}

/* ---------------------------------------------------------------------- add */

static const char *addend(const rg__native *c, int host)
{
    const rg__scatter *x = c->schedule->scatter;
    return (host == topology(c)->host ? sum_slot(c, x->added, host, c->rank)
                                      : arrival_slot(c, x->added, host)) +
           x->added_at * rg__element(c);
}

static void add_piece(rg__native *c)
{
    rg__scatter *x = c->schedule->scatter;
    const rg__coll *o = &c->user;
    const int hosts = topology(c)->hosts;
    const uint64_t count = chunk_count(c, x->added, c->set_rank);
    const uint64_t now =
        rg__least(count - x->added_at, RG__WORK_BYTES / 4 / rg__element(c));
    const uint64_t at = chunk_begin(c, x->added, c->set_rank) -
                        x->begin[c->set_rank] + x->added_at;
    char *to = (char *)o->recv + at * rg__element(c);
    if (now > 0) {
        rg__reduce(o->type, o->op, to, addend(c, 0), addend(c, 1), (size_t)now);
        for (int h = 2; h < hosts; h++)
            rg__reduce(o->type, o->op, to, to, addend(c, h), (size_t)now);
        rg__finish(o, to, (size_t)now, c->set_n);
    }
    x->added_at += now;
    if (x->added_at == count) {
        x->added_at = 0;
        x->added++;
    }
    c->base.moves++;
}

/* -------------------------------------------------------------------- begin */

static rg_status reserve(rg__native *c)
{
    const size_t n = (size_t)c->set_n, hosts = (size_t)topology(c)->hosts;
    rg__scatter *x = calloc(1, sizeof *x);
    if (x != NULL) {
        c->schedule->scatter = x;
        x->begin = calloc(n + 1, sizeof *x->begin);
        x->slot_begin = calloc(hosts + 1, sizeof *x->slot_begin);
        x->counts = calloc(2 * (size_t)c->n, sizeof *x->counts);
    }
    if (x != NULL && x->begin != NULL && x->slot_begin != NULL &&
        x->counts != NULL)
        return RG_OK;
    rg__scatter_free(c);
    return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
}

/* Find where each part begins; returns the elements of the longest part. */
static uint64_t find_parts(const rg__native *c)
{
    rg__scatter *x = c->schedule->scatter;
    uint64_t longest = 0;
    for (int r = 0; r < c->set_n; r++) {
        const uint64_t count = rg__schedule_part_count(c, r);
        x->begin[r + 1] = x->begin[r] + count;
        longest = count > longest ? count : longest;
    }
    return longest;
}

/* Assign slots for my sums; returns the most slots that any member needs. */
static int find_slots(const rg__native *c)
{
    const rg__topology *s = topology(c);
    rg__scatter *x = c->schedule->scatter;
    int most = 0;
    for (int h = 0; h < s->hosts; h++) {
        const int n = rg__topology_size(s, h);
        x->slot_begin[h + 1] = x->slot_begin[h] + (n + c->n - 1) / c->n;
        most += (n + s->rails - 1) / s->rails;
    }
    return most + s->hosts;
}

static rg_status begin(rg__native *c)
{
    rg_status st = c->schedule->scatter == NULL ? reserve(c) : RG_OK;
    if (st != RG_OK)
        return st;
    rg__scatter *x = c->schedule->scatter;
    const uint64_t longest = find_parts(c);
    const uint64_t share =
        SCRATCH_BYTES / AHEAD / (uint64_t)find_slots(c) / RG__LINE * RG__LINE;
    const uint64_t bytes = share < LEAST_BYTES  ? LEAST_BYTES
                           : share > MOST_BYTES ? MOST_BYTES
                                                : share;
    x->most = rg__least(bytes / rg__element(c), longest);
    x->slot_bytes =
        (size_t)(x->most * rg__element(c) + RG__LINE - 1) / RG__LINE * RG__LINE;
    x->chunks = (uint32_t)((longest + x->most - 1) / x->most);
    x->summed = x->sent = x->received = x->added = 0;
    x->host = x->first = 0;
    x->added_at = 0;
    const int hosts = topology(c)->hosts;
    return rg__schedule_room(c, (uint64_t)(x->slot_begin[hosts] + hosts) *
                                    AHEAD * x->slot_bytes);
}

rg_status rg__scatter_next(rg__native *c)
{
    rg_status st = c->schedule->has_pairs ? RG_OK : begin(c);
    rg__scatter *x = c->schedule->scatter;
    c->schedule->has_pairs = true;
    if (st != RG_OK)
        return st;
    if (!rg__pairs_is_running(c)) {
        x->received = x->sent;
        if (x->sent < x->summed && x->sent < x->added + AHEAD)
            st = send_chunk(c);
    }
    if (st != RG_OK || x->added == x->chunks)
        return st;
    if (x->summed < x->chunks && x->summed < x->added + AHEAD)
        return sum_next(c);
    if (x->added < x->received)
        add_piece(c);
    return x->added == x->chunks ? RG_OK : RG_IN_PROGRESS;
}

void rg__scatter_free(rg__native *c)
{
    rg__scatter *x = c->schedule->scatter;
    if (x == NULL)
        return;
    free(x->begin);
    free(x->slot_begin);
    free(x->counts);
    free(x);
    c->schedule->scatter = NULL;
}
