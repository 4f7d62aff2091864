/* Operations over several hosts that are made of parts, one after the other:
 *
 *   reduce            small: an allreduce, whose result only the root keeps;
 *                     large: in one, along the chain of hosts (ring.c), or
 *                     straight to the root (scatter.c)
 *   reduce_scatter    small: an allreduce; large: scatter.c
 *   among lone members of 2, 4, 8 .. hosts, up to 128 KiB of it, and up to 64
 *   of a scatter or an alltoall: with the descriptors, halved (exchange.c)
 *   uneven counts     first an allgather of the counts, which are compared
 *   pairs, small      an allgather of all streams, of which each takes its part
 *   pairs, large      each part goes straight to its member: between hosts in a
 *                     round of pairs (pairs.c), meanwhile inside each host in
 *                     an alltoallv of its members
 *   allgatherv        small: an allgather; large: a broadcast from each to all
 *
 * The descriptors of each part say what the user has started, and which part it
 * is: a difference is found with the first part, before a byte is written. So
 * an operation whose data go straight begins with a part that has no data. */
#include "sdk/transport/inter/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/transport/inter/schedule_parts.h"
#include "sdk/transport/shm/pairwise.h"

#define CHUNK_BYTES ((uint64_t)8 << 20)
#define SUM_BYTES   ((uint64_t)64 << 10) /* most at once, by all */

bool rg__schedule_has(rg__kind kind)
{
    return kind == RG__REDUCE || rg__kind_scatters(kind) ||
           rg__pairwise_has(kind);
}

rg_status rg__schedule_room(rg__native *c, uint64_t bytes)
{
    struct rg__schedule *x = c->schedule;
    if (bytes <= x->room)
        return RG_OK;
    free(x->scratch);
    x->scratch = malloc((size_t)bytes);
    x->room = x->scratch == NULL ? 0 : bytes;
    return x->scratch != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY, "no memory for an operation");
}

static rg_status begin_any(rg__native *c, const rg__coll *part, bool is_local)
{
    c->schedule->part++;
    c->schedule->coll = *part;
    c->schedule->is_local = is_local;
    c->schedule->is_taken = false;
    return RG_IN_PROGRESS;
}

/* Set what is to be done next. */
static rg_status begin_part(rg__native *c, const rg__coll *part)
{
    return begin_any(c, part, false);
}

rg_status rg__schedule_begin_local(rg__native *c, const rg__coll *part)
{
    return begin_any(c, part, true);
}

uint64_t rg__schedule_take(rg__native *c, rg__coll *part, bool *is_local_p)
{
    struct rg__schedule *x = c->schedule;
    if (x == NULL || x->is_taken)
        return 0;
    x->is_taken = true;
    *part = x->coll;
    *is_local_p = x->is_local;
    return x->part;
}

/* ---------------------------------------------------------- counts of pairs */

static int parts_of(const rg__native *c)
{
    return RG__PAIRWISE_COUNTS * c->set_n;
}

static rg_status gather_counts(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const size_t all = (size_t)parts_of(c) * (size_t)c->set_n;
    free(x->counts);
    x->counts = malloc((all + (size_t)parts_of(c)) * sizeof *x->counts);
    if (x->counts == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    rg__pairwise_list(&c->user, c->set_rank, c->set_n, x->counts + all);
    const rg__coll part = {.kind = RG__ALLGATHER,
                           .type = RG_U64,
                           .count = (uint64_t)parts_of(c),
                           .send = x->counts + all,
                           .recv = x->counts};
    return begin_part(c, &part);
}

/* Elements from one member to another. */
static uint64_t count_of(const rg__native *c, int from, int to)
{
    if (!rg__kind_is_uneven(c->user.kind))
        return rg__pairwise_count(&c->user, c->set_rank, from, to);
    return c->schedule->counts[(size_t)from * (size_t)parts_of(c) + (size_t)to];
}

static bool is_one_for_all(const rg__native *c)
{
    return c->user.kind == RG__ALLGATHERV;
}

/* Element where the part for `to` begins in the stream; to == from: its
 * length. */
static uint64_t stream_at(const rg__native *c, int from, int to)
{
    const int n = c->set_n;
    if (is_one_for_all(c))
        return to == from ? count_of(c, from, from) : 0;
    uint64_t at = 0;
    for (int i = (from + 1) % n; i != to; i = (i + 1) % n)
        at += count_of(c, from, i);
    return at;
}

static void find_longest(rg__native *c)
{
    c->schedule->longest = 0;
    for (int m = 0; m < c->set_n; m++) {
        const uint64_t bytes = stream_at(c, m, m) * rg__element(c);
        if (bytes > c->schedule->longest)
            c->schedule->longest = bytes;
    }
}

/* --------------------------------------------------------- reduce (scatter) */

static bool is_reduction(const rg__native *c)
{
    return !rg__pairwise_has(c->user.kind);
}

uint64_t rg__schedule_part_count(const rg__native *c, int r)
{
    const rg__coll *o = &c->user;
    if (o->kind == RG__REDUCE)
        return r == o->root ? o->count : 0;
    return o->kind == RG__REDUCE_SCATTERV ? o->recv_counts[r] : o->count;
}

static uint64_t part_begin(const rg__native *c, int r)
{
    uint64_t at = 0;
    if (c->user.kind == RG__REDUCE_SCATTER)
        return (uint64_t)r * c->user.count;
    for (int i = 0; i < r; i++)
        at += rg__schedule_part_count(c, i);
    return at;
}

static uint64_t all_count(const rg__native *c)
{
    return c->user.kind == RG__REDUCE_SCATTER
               ? c->user.count * (uint64_t)c->set_n
               : c->user.count;
}

static rg__coll reduction(const rg__native *c, uint64_t count, void *recv)
{
    return (rg__coll){.kind = RG__ALLREDUCE,
                      .type = c->user.type,
                      .op = c->user.op,
                      .count = count,
                      .send = c->user.send,
                      .recv = recv,
                      .prescale = c->user.prescale,
                      .postscale = c->user.postscale};
}

static rg_status reduce_at_once(rg__native *c)
{
    const bool is_roots =
        c->user.kind == RG__REDUCE && c->user.root == c->set_rank;
    const rg_status st =
        rg__schedule_room(c, all_count(c) * rg__element(c) + 1);
    if (st != RG_OK)
        return st;
    const rg__coll part = reduction(
        c, all_count(c), is_roots ? c->user.recv : c->schedule->scratch);
    return begin_part(c, &part);
}

/* The whole operation runs as it was started. */
static rg_status run_whole(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    if (x->has_pairs)
        return RG_OK;
    x->has_pairs = true;
    return begin_part(c, &c->user);
}

static void keep_my_part(const rg__native *c)
{
    const uint64_t bytes =
        rg__schedule_part_count(c, c->set_rank) * rg__element(c);
    if (bytes > 0)
        rg__copy(c->user.recv,
                 c->schedule->scratch +
                     part_begin(c, c->set_rank) * rg__element(c),
                 (size_t)bytes);
}

/* ------------------------------------------------------------------- pairs */

/* All streams are padded to the longest one. */
static rg_status exchange_at_once(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const int n = c->set_n;
    const rg_status st =
        rg__schedule_room(c, x->longest * (uint64_t)(n + 1) + 1);
    if (st != RG_OK)
        return st;
    char *mine = x->scratch + x->longest * (uint64_t)n;
    memset(mine, 0, (size_t)x->longest);
    for (int i = 1; i < n; i++) {
        const int to = (c->set_rank + i) % n;
        const uint64_t bytes = count_of(c, c->set_rank, to) * rg__element(c);
        if (bytes > 0)
            rg__copy(mine + stream_at(c, c->set_rank, to) * rg__element(c),
                     rg__pairwise_out(&c->user, c->set_rank, to),
                     (size_t)bytes);
    }
    const rg__coll part = {.kind = RG__ALLGATHER,
                           .type = RG_U8,
                           .count = x->longest,
                           .send = mine,
                           .recv = x->scratch};
    return begin_part(c, &part);
}

static void take_parts(const rg__native *c)
{
    const struct rg__schedule *x = c->schedule;
    for (int m = 0; m < c->set_n; m++) {
        const uint64_t bytes = count_of(c, m, c->set_rank) * rg__element(c);
        if (m != c->set_rank && bytes > 0)
            rg__copy(rg__pairwise_in(&c->user, c->set_rank, m),
                     x->scratch + (uint64_t)m * x->longest +
                         stream_at(c, m, c->set_rank) * rg__element(c),
                     (size_t)bytes);
    }
}

/* The next chunk of what x->from sends to all. */
static rg_status send_part(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    for (; x->from < c->set_n; x->from++, x->at = 0) {
        const uint64_t left = count_of(c, x->from, x->from) - x->at;
        if (left == 0)
            continue;
        const uint64_t now = rg__least(left, CHUNK_BYTES / rg__element(c));
        const char *data =
            x->from == c->set_rank
                ? rg__pairwise_out(&c->user, c->set_rank, x->from)
                : rg__pairwise_in(&c->user, c->set_rank, x->from);
        const rg__coll part = {.kind = RG__BROADCAST,
                               .type = c->user.type,
                               .root = x->from,
                               .count = now,
                               .recv = (char *)(uintptr_t)data +
                                       x->at * rg__element(c)};
        x->at += now;
        return begin_part(c, &part);
    }
    return RG_OK;
}

/* --------------------------------------------------------- straight to each */

/* What the user's operation moves between this rank and a member. */
static rg__pair pair_with(const rg__native *c, int m)
{
    rg__pair p = {.member = m,
                  .out_bytes = count_of(c, c->set_rank, m) * rg__element(c),
                  .in_bytes = count_of(c, m, c->set_rank) * rg__element(c)};
    p.out = p.out_bytes > 0 ? rg__pairwise_out(&c->user, c->set_rank, m) : NULL;
    p.in = p.in_bytes > 0 ? rg__pairwise_in(&c->user, c->set_rank, m) : NULL;
    return p;
}

static rg_status begin_pairs(rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    const int n = c->set_n;
    rg_status st = rg__pairs_begin(c, n);
    for (int turn = 0; turn < rg__pairwise_turns(n) && st == RG_OK; turn++) {
        const int m = rg__pairwise_partner(n, c->set_rank, turn);
        const rg__pair p = pair_with(c, m);
        if (s->host_of[m] != s->host)
            st = rg__pairs_add(c, &p);
    }
    return st;
}

/* Members on this host exchange their parts in an operation of their own. */
static rg_status exchange_here(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const rg__topology *s = &c->inter->topology;
    const size_t n = (size_t)c->n;
    if (x->local == NULL)
        x->local = malloc(4 * n * sizeof *x->local);
    if (x->local == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    uint64_t *out = x->local, *out_at = out + n, *in = out_at + n,
             *in_at = in + n, outs = 0, ins = 0;
    for (int k = 0; k < c->n; k++) {
        const int m = rg__topology_member(s, s->host, k);
        const bool is_me = m == c->set_rank;
        out[k] = is_me ? 0 : count_of(c, c->set_rank, m);
        in[k] = is_me ? 0 : count_of(c, m, c->set_rank);
        out_at[k] = rg__pairwise_send_at(&c->user, c->set_rank, m);
        in_at[k] = rg__pairwise_recv_at(&c->user, c->set_rank, m);
        outs += out[k];
        ins += in[k];
    }
    const rg__coll part = {.kind = RG__ALLTOALLV,
                           .type = c->user.type,
                           .send = outs > 0 ? c->user.send : NULL,
                           .recv = ins > 0 ? c->user.recv : NULL,
                           .send_counts = out,
                           .send_places = out_at,
                           .recv_counts = in,
                           .recv_places = in_at};
    const rg_status st = rg__pairwise_make(c);
    return st == RG_OK ? rg__schedule_begin_local(c, &part) : st;
}

/* OK: both kinds of pairs are done. */
static rg_status exchange(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    rg_status st = RG_OK;
    if (!x->has_pairs) {
        st = begin_pairs(c);
        x->has_pairs = true;
        if (st == RG_OK && c->n > 1)
            st = exchange_here(c);
    }
    return st == RG_OK && rg__pairs_is_running(c) ? RG_IN_PROGRESS : st;
}

/* Copy a piece of what I send to myself; OK: all of it is copied. */
static rg_status copy_own(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const uint64_t bytes =
        count_of(c, c->set_rank, c->set_rank) * rg__element(c);
    const char *from = rg__pairwise_out(&c->user, c->set_rank, c->set_rank);
    char *to = rg__pairwise_in(&c->user, c->set_rank, c->set_rank);
    const uint64_t now = rg__least(bytes - x->at, RG__WORK_BYTES);
    if (from == to || now == 0)
        return RG_OK;
    rg__copy(to + x->at, from + x->at, (size_t)now);
    x->at += now;
    c->base.moves++;
    return RG_IN_PROGRESS;
}

/* ----------------------------------------------------------------- in whole */

static void go_to(rg__native *c, rg__phase next)
{
    struct rg__schedule *x = c->schedule;
    x->phase = next;
    x->at = 0;
    x->from = 0;
    x->has_pairs = false;
}

static bool is_halved(const rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    const uint64_t most = is_reduction(c) ? MEDIUM_BYTES : SMALL_ALL;
    return rg__kind_deals(c->user.kind) && rg__topology_is_flat(s) &&
           rg__topology_pairs(s) &&
           c->user.count <= most / rg__element(c) / (uint64_t)c->set_n;
}

static bool is_at_once(const rg__native *c)
{
    const uint64_t n = (uint64_t)c->set_n;
    if (is_halved(c))
        return false;
    if (is_reduction(c))
        return all_count(c) * rg__element(c) <=
               (rg__topology_is_flat(&c->inter->topology) ? SMALL_BYTES
                                                          : SUM_BYTES);
    return c->schedule->longest <= SMALL_BYTES &&
           c->schedule->longest <= SMALL_ALL / n;
}

/* Straight to its root, a large sum would overload the root's connection. */
static bool is_whole(const rg__native *c)
{
    return is_halved(c) || (c->user.kind == RG__REDUCE &&
                            (!rg__topology_is_flat(&c->inter->topology) ||
                             c->user.count * rg__element(c) > MEDIUM_BYTES));
}

/* Do the data travel outside of parts, and so without descriptors? */
static bool goes_straight(const rg__native *c)
{
    return !is_whole(c) && !is_one_for_all(c);
}

/* At least one part crosses hosts, so that all descriptors are compared; uneven
 * counts have crossed already. */
static void choose(rg__native *c)
{
    if (rg__pairwise_has(c->user.kind))
        find_longest(c);
    const bool is_compared = rg__kind_is_uneven(c->user.kind);
    if (is_at_once(c))
        go_to(c, AT_ONCE);
    else
        go_to(c, goes_straight(c) && !is_compared ? COMPARE : PARTS);
}

/* Did the others receive my own counts unchanged? */
static bool is_my_row_whole(const rg__native *c)
{
    const uint64_t *all = c->schedule->counts;
    const size_t row = (size_t)parts_of(c);
    return memcmp(all + (size_t)c->set_rank * row, all + (size_t)c->set_n * row,
                  row * sizeof *all) == 0;
}

static rg_status after_counts(rg__native *c)
{
    rg_status st = rg__pairwise_compare(c->id, c->user.kind,
                                        c->schedule->counts, c->set_n);
    if (st == RG_OK && !is_my_row_whole(c))
        st = rg__fail(RG_ERR_MISMATCH,
                      "%s on %s: the counts of rank %d have changed on "
                      "their way to the others; some worker writes over shared "
                      "memory",
                      rg__kind_name(c->user.kind), rg__set_words(c->id).text,
                      c->set_rank);
    if (st == RG_OK)
        choose(c);
    return st;
}

static rg_status begin_phase(rg__native *c)
{
    if (c->schedule->phase == COUNTS)
        return gather_counts(c);
    if (c->schedule->phase == AT_ONCE)
        return is_reduction(c) ? reduce_at_once(c) : exchange_at_once(c);
    if (c->schedule->phase == COMPARE)
        return begin_part(c, &(rg__coll){.kind = RG__BARRIER});
    return rg__schedule_next(c);
}

rg_status rg__schedule_begin(rg__native *c)
{
    if (c->schedule == NULL)
        c->schedule = calloc(1, sizeof *c->schedule);
    if (c->schedule == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    c->schedule->is_running = c->schedule->is_taken = true;
    c->schedule->part = 0;
    if (rg__kind_is_uneven(c->user.kind))
        go_to(c, COUNTS);
    else
        choose(c);
    const rg_status st = begin_phase(c);
    return st == RG_IN_PROGRESS ? RG_OK : st;
}

bool rg__schedule_is_under_way(const rg__native *c)
{
    return c->schedule->is_running;
}

static rg_status end_at_once(rg__native *c)
{
    if (!is_reduction(c)) {
        take_parts(c);
        go_to(c, OWN);
        return RG_IN_PROGRESS;
    }
    if (c->user.kind != RG__REDUCE)
        keep_my_part(c);
    go_to(c, OVER);
    return RG_OK;
}

static rg_status next_part(rg__native *c)
{
    if (is_whole(c))
        return run_whole(c);
    if (is_reduction(c))
        return rg__scatter_next(c);
    return is_one_for_all(c) ? send_part(c) : exchange(c);
}

void rg__schedule_turn(rg__native *c)
{
    if (!rg__pairs_is_running(c))
        return;
    rg__inter_poll(c);
    rg__pairs_turn(c);
}

rg_status rg__schedule_next(rg__native *c)
{
    rg_status st = RG_OK;
    switch (c->schedule->phase) {
    case COUNTS:
        st = after_counts(c);
        return st == RG_OK ? begin_phase(c) : st;
    case AT_ONCE:
        return end_at_once(c);
    case COMPARE:
        go_to(c, PARTS);
        return rg__schedule_next(c);
    case PARTS:
        st = next_part(c);
        if (st != RG_OK)
            return st;
        go_to(c, is_reduction(c) ? OVER : OWN);
        return is_reduction(c) ? RG_OK : RG_IN_PROGRESS;
    case OWN:
        return copy_own(c);
    case OVER:
        break;
    }
    return RG_OK;
}

void rg__schedule_end(rg__native *c)
{
    if (c->schedule == NULL)
        return;
    c->schedule->is_running = false;
    rg__pairs_end(c);
}

void rg__schedule_free(rg__native *c)
{
    rg__schedule_end(c);
    if (c->schedule == NULL)
        return;
    rg__scatter_free(c);
    free(c->schedule->local);
    free(c->schedule->counts);
    free(c->schedule->scratch);
    free(c->schedule);
    c->schedule = NULL;
}
