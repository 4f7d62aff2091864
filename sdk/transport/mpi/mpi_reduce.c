/* Reductions, by messages; in sets of many members by MPI, if it has the type.
 *
 *   pairwise  the smallest, among 2, 4, 8 or 16: recursive doubling; in each
 *             step a rank and its partner exchange all that they have gathered
 *   together  small ones: each rank sends all to all, and all compute it, in
 *             rank order
 *   to root   a REDUCE that is not large: each rank sends all to the root
 *   a round   every rank has a slice of the round's elements; it receives that
 *             slice of all others, adds them up in rank order, and sends the
 *             result to the ranks that need it
 *
 * So a slice is computed once, and all ranks get equal bits; F16 and BF16,
 * which MPI lacks, are added in float32; and from some KiB on it is faster than
 * MPI's own collectives, since every byte travels twice and is added once.
 *
 *   REDUCE           the slices go to the root only
 *   REDUCE_SCATTER   a rank's slice is its part of the result: they stay */
#include "sdk/transport/reduce.h"

#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/base/least.h"
#include "sdk/transport/mpi/mpi_comm.h"

#define IN_PAIRS    256                 /* bytes */
#define AT_ONCE     ((uint64_t)4 << 10) /* shorter messages: Open MPI's sm */
#define CUT         ((uint64_t)3 << 10)
#define TOGETHER    ((uint64_t)24 << 10)
#define HEARD       ((uint64_t)48 << 10) /* most bytes from all others */
#define OF_TWO      ((uint64_t)15 << 20) /* its scratch is kept */
#define AGREED      ((uint64_t)64 << 10) /* between two, without a question */
#define TO_ROOT     ((uint64_t)2 << 20)  /* bytes of all senders together */
#define PIECE_BYTES ((uint64_t)128 << 10)
#define REQUESTS    4096 /* so many are waited for before more are posted */
#define CHUNK       ((uint64_t)1 << 27) /* elements of one call */

static size_t bytes_of(const rg__mpi *c, uint64_t elements)
{
    return (size_t)elements * c->element;
}

static bool has_result(const rg__mpi *c)
{
    return c->coll.kind != RG__REDUCE || c->rank == c->coll.root;
}

/* ------------------------------------------------------------------ by MPI */

static MPI_Op op_of(const rg__coll *o)
{
    switch (o->op) {
    case RG_SUM:
    case RG_AVG:
        return MPI_SUM;
    case RG_PROD:
        return MPI_PROD;
    case RG_MIN:
        return MPI_MIN;
    case RG_MAX:
        return MPI_MAX;
    case RG_LAND:
        return MPI_LAND;
    case RG_LOR:
        return MPI_LOR;
    case RG_LXOR:
        return MPI_LXOR;
    case RG_BAND:
        return MPI_BAND;
    case RG_BOR:
        return MPI_BOR;
    case RG_BXOR:
        return MPI_BXOR;
    case RG_MINLOC:
        return MPI_MINLOC;
    case RG_MAXLOC:
        return MPI_MAXLOC;
    }
    return MPI_OP_NULL;
}

/* at: elements that are finished. */
static rg_status finish(rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    const uint64_t now =
        rg__least(o->count - c->at, RG__WORK_BYTES / c->element);
    rg__finish(o, (char *)o->recv + bytes_of(c, c->at), (size_t)now, c->n);
    c->at += now;
    return c->at == o->count ? RG_OK : RG_IN_PROGRESS;
}

/* If some numbers are NaN, MPI may give each rank a different one; here one
 * rank computes the result for all. Pairs with NaN have a rule of ours. */
static bool depends_on_order(const rg__coll *o)
{
    return rg_op_has(RG_MINLOC, o->type) ||
           ((o->op == RG_MIN || o->op == RG_MAX) &&
            (o->type == RG_F32 || o->type == RG_F64));
}

static rg_status post_broadcast(rg__mpi *c);

static rg_status post_by_root(rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    char *recv = (char *)o->recv + bytes_of(c, c->at);
    const void *send = (const char *)o->send + bytes_of(c, c->at);
    if (c->rank == 0 && o->send == o->recv)
        send = MPI_IN_PLACE;
    c->stage = post_broadcast;
    return rg__mpi_posted("MPI_Ireduce",
                          MPI_Ireduce(send, recv, (int)c->part,
                                      rg__mpi_reduced_type(o->type), op_of(o),
                                      0, c->mpi, rg__mpi_request(c)));
}

static rg_status whole(rg__mpi *c);

static rg_status post_allreduce(rg__mpi *c, const void *send)
{
    const rg__coll *o = &c->coll;
    c->stage = whole;
    return rg__mpi_posted(
        "MPI_Iallreduce",
        MPI_Iallreduce(send, (char *)o->recv + bytes_of(c, c->at), (int)c->part,
                       rg__mpi_reduced_type(o->type), op_of(o), c->mpi,
                       rg__mpi_request(c)));
}

static rg_status post_reduce(rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    const size_t at = bytes_of(c, c->at);
    const bool is_in_place = has_result(c) && o->send == o->recv;
    return rg__mpi_posted(
        "MPI_Ireduce",
        MPI_Ireduce(is_in_place ? MPI_IN_PLACE : (const char *)o->send + at,
                    has_result(c) ? (char *)o->recv + at : NULL, (int)c->part,
                    rg__mpi_reduced_type(o->type), op_of(o), o->root, c->mpi,
                    rg__mpi_request(c)));
}

/* MPI_IN_PLACE is for all ranks or for none, else sums are wrong; here each has
 * chosen for itself, or has joined. done: elements of the part. */
static rg_status set_aside(rg__mpi *c)
{
    const char *send = (const char *)c->coll.send;
    if (c->scratch == NULL) {
        const rg_status st =
            rg__mpi_scratch(c, bytes_of(c, c->part), send + bytes_of(c, c->at));
        if (st != RG_OK)
            return st;
    }
    const uint64_t piece = rg__mpi_are_multiple()
                               ? RG__WORK_BYTES / c->element
                               : c->part; /* the caller may stay away */
    const uint64_t now = rg__least(c->part - c->done, piece);
    rg__copy(c->scratch + bytes_of(c, c->done),
             send + bytes_of(c, c->at + c->done), bytes_of(c, now));
    c->done += now;
    c->stage = set_aside;
    return c->done < c->part ? RG_IN_PROGRESS : post_allreduce(c, c->scratch);
}

static rg_status post_whole(rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    if (o->kind == RG__REDUCE)
        return post_reduce(c);
    if (depends_on_order(o))
        return post_by_root(c);
    c->done = 0;
    return o->send == o->recv
               ? set_aside(c)
               : post_allreduce(c, (const char *)o->send + bytes_of(c, c->at));
}

static rg_status post_broadcast(rg__mpi *c)
{
    c->stage = whole;
    return rg__mpi_posted("MPI_Ibcast",
                          MPI_Ibcast((char *)c->coll.recv + bytes_of(c, c->at),
                                     (int)c->part, rg__mpi_type(c->coll.type),
                                     0, c->mpi, rg__mpi_request(c)));
}

static rg_status whole(rg__mpi *c)
{
    c->at += c->part;
    if (c->at < c->coll.count) {
        c->part = rg__least(c->coll.count - c->at, CHUNK);
        return post_whole(c);
    }
    if (!has_result(c) || !rg__is_finished_by(&c->coll) || c->coll.count == 0)
        return RG_OK;
    c->at = 0;
    c->stage = finish;
    return finish(c);
}

/* ------------------------------------------------------------- by messages
 * While a round is computed the next one's slices travel; no rank waits for
 * another that still computes. All members post in the same order:
 *
 *   slices 0, slices 1, results 0, slices 2, results 1, ...
 *
 * Results of a round are sent as soon as they are computed, and received when
 * the next round's slices have come: in place, slices that are sent lie where
 * they go, and these are sent by then.
 */

/* Rank r's slice of a round, in elements: its begin in all data, its length. */
typedef struct slice {
    uint64_t at, count;
} slice;

/* at and count: elements of each rank's part. */
static slice scattered(const rg__mpi *c, const rg__round *round, int r)
{
    const rg__coll *o = &c->coll;
    uint64_t first = (uint64_t)r * o->count, count = o->count;
    if (o->recv_counts != NULL) {
        first = 0;
        for (int q = 0; q < r; q++)
            first += o->recv_counts[q];
        count = o->recv_counts[r];
    }
    if (round->at >= count)
        return (slice){first, 0};
    return (slice){first + round->at,
                   rg__least(count - round->at, round->count)};
}

static slice slice_of(const rg__mpi *c, const rg__round *round, int r)
{
    if (c->is_together)
        return (slice){0, c->coll.count};
    if (rg__kind_scatters(c->coll.kind))
        return scattered(c, round, r);
    const uint64_t n = (uint64_t)c->n, count = round->count;
    const uint64_t each = (count + n - 1) / n;
    const uint64_t begin = rg__least((uint64_t)r * each, count);
    return (slice){round->at + begin, rg__least(begin + each, count) - begin};
}

static uint64_t stride(const rg__mpi *c, const rg__round *round)
{
    return rg__mpi_stride(bytes_of(c, slice_of(c, round, c->rank).count));
}

/* Scratch: what others send for my slice, one after the other; after them my
 * result, if there is no room for it elsewhere. */
static char *received_from(const rg__mpi *c, const rg__round *round, int r)
{
    const uint64_t index = (uint64_t)((r - c->rank + c->n) % c->n) - 1;
    return round->scratch + index * stride(c, round);
}

static char *my_result(const rg__mpi *c, const rg__round *round)
{
    const slice mine = slice_of(c, round, c->rank);
    if (rg__kind_scatters(c->coll.kind))
        return (char *)c->coll.recv + bytes_of(c, round->at);
    if (has_result(c))
        return (char *)c->coll.recv + bytes_of(c, mine.at);
    return round->scratch + (uint64_t)(c->n - 1) * stride(c, round);
}

/* The round that is computed. */
static rg__round *this_round(rg__mpi *c)
{
    return &c->round[c->part % 2];
}

/* How many elements the rounds go over. */
static uint64_t length(const rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    if (o->recv_counts == NULL)
        return o->count;
    uint64_t most = 0;
    for (int r = 0; r < c->n; r++)
        most = o->recv_counts[r] > most ? o->recv_counts[r] : most;
    return most;
}

static rg_status end_rounds(rg__mpi *c)
{
    (void)c;
    return RG_OK;
}

/* Elements of each message: what is less than two that MPI sends at once goes
 * in such ones. */
static uint64_t message_of(const rg__mpi *c, uint64_t count)
{
    const uint64_t bytes = bytes_of(c, count);
    const bool is_cut =
        c->is_together && bytes >= AT_ONCE && bytes < 2 * AT_ONCE;
    return is_cut ? CUT / c->element : count;
}

static rg_status receive_slice(rg__mpi *c, int from, char *data, uint64_t count)
{
    const uint64_t each = message_of(c, count);
    rg_status st = RG_OK;
    for (uint64_t at = 0; at < count && st == RG_OK; at += each)
        st = rg__mpi_recv(c, from, data + bytes_of(c, at),
                          rg__least(each, count - at));
    return st;
}

static rg_status send_slice(rg__mpi *c, int to, slice s)
{
    const char *data = (const char *)c->coll.send + bytes_of(c, s.at);
    const uint64_t each = message_of(c, s.count);
    rg_status st = RG_OK;
    for (uint64_t at = 0; at < s.count && st == RG_OK; at += each)
        st = rg__mpi_send(c, to, data + bytes_of(c, at),
                          rg__least(each, s.count - at));
    return st;
}

/* at: elements of the rounds that are posted. */
static rg_status post_round(rg__mpi *c, rg__round *round)
{
    rg_status st = RG_OK;
    round->at = c->at;
    round->count = rg__least(length(c) - c->at, c->round_count);
    c->at += round->count;
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int from = (c->rank + c->n - i) % c->n;
        st = receive_slice(c, from, received_from(c, round, from),
                           slice_of(c, round, c->rank).count);
    }
    round->heard = c->requests;
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int to = (c->rank + i) % c->n;
        st = send_slice(c, to, slice_of(c, round, to));
    }
    round->sent = c->requests;
    return st;
}

/* In place, slices that are sent lie where these come: all of them are sent. */
static rg_status receive_results(rg__mpi *c, const rg__round *round)
{
    rg_status st = RG_OK;
    for (int i = 1; i < c->n && st == RG_OK && has_result(c); i++) {
        const int from = (c->rank + c->n - i) % c->n;
        const slice s = slice_of(c, round, from);
        st = rg__mpi_recv(c, from, (char *)c->coll.recv + bytes_of(c, s.at),
                          s.count);
    }
    return st;
}

static rg_status send_results(rg__mpi *c, const rg__round *round)
{
    const rg__coll *o = &c->coll;
    rg_status st = RG_OK;
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int to = (c->rank + i) % c->n;
        if (o->kind == RG__ALLREDUCE || to == o->root)
            st = rg__mpi_send(c, to, my_result(c, round),
                              slice_of(c, round, c->rank).count);
    }
    return st;
}

static rg_status compute(rg__mpi *c);

static bool has_results_to_pass(const rg__mpi *c)
{
    return !rg__kind_scatters(c->coll.kind) && !c->is_together;
}

/* part: rounds that are computed. */
static rg__round *last_round(rg__mpi *c)
{
    return &c->round[(c->part + 1) % 2];
}

static rg_status end_last_round(rg__mpi *c)
{
    const rg_status st =
        has_results_to_pass(c) ? receive_results(c, last_round(c)) : RG_OK;
    return st == RG_OK ? rg__mpi_then(c, end_rounds, RG__ALL) : st;
}

static rg_status after_emptying(rg__mpi *c)
{
    for (int i = 0; i < 2; i++)
        c->round[i].heard = c->round[i].sent = 0;
    return compute(c);
}

/* The slices of this round have come, so those of the one before are sent. A
 * long list of requests is emptied. */
static rg_status go_on(rg__mpi *c)
{
    rg_status st =
        has_results_to_pass(c) ? receive_results(c, last_round(c)) : RG_OK;
    if (st == RG_OK && c->at < length(c))
        st = post_round(c, last_round(c));
    if (st != RG_OK)
        return st;
    return c->requests > REQUESTS ? rg__mpi_then(c, after_emptying, RG__ALL)
                                  : compute(c);
}

static rg_status end_round(rg__mpi *c)
{
    const rg__round *round = this_round(c);
    const bool is_last = round->at + round->count == length(c);
    const rg_status st =
        has_results_to_pass(c) ? send_results(c, round) : RG_OK;
    if (st != RG_OK)
        return st;
    c->part++;
    c->done = 0;
    if (is_last)
        return rg__mpi_then(c, end_last_round, round->sent);
    c->needed = this_round(c)->heard;
    c->stage = go_on;
    return RG_IN_PROGRESS;
}

/* Compute elements [at, at + count) of my slice over all members, in rank
 * order. More members than rg__combine takes are added in several calls. */
static void combine(const rg__mpi *c, const rg__round *round, uint64_t at,
                    size_t count, void *out)
{
    const void *src[RG__SOURCES_MAX];
    const rg__coll *o = &c->coll;
    const slice mine = slice_of(c, round, c->rank);
    int n = 0;
    for (int r = 0; r < c->n && r < RG__SOURCES_MAX; r++)
        src[n++] = r == c->rank
                       ? (const char *)o->send + bytes_of(c, mine.at + at)
                       : received_from(c, round, r) + bytes_of(c, at);
    rg__combine(o, out, src, n, count, c->n);
}

/* In place, my own send is where the result goes. If it is added first, it is
 * read before it is overwritten; else it is copied to a block. */
static bool is_written_early(const rg__mpi *c, const rg__round *round)
{
    const uint64_t at = slice_of(c, round, c->rank).at;
    return c->rank > 1 &&
           my_result(c, round) == (const char *)c->coll.send + bytes_of(c, at);
}

/* done: elements of my slice that are computed. */
static rg_status compute(rg__mpi *c)
{
    _Alignas(64) char block[RG__REDUCE_BLOCK];
    const rg__round *round = this_round(c);
    const uint64_t count = slice_of(c, round, c->rank).count;
    const uint64_t stop =
        rg__least(count, c->done + RG__WORK_BYTES / c->element);
    const uint64_t most = RG__REDUCE_BLOCK / c->element;
    const bool is_early = is_written_early(c, round);
    while (c->done < stop) {
        const size_t now = (size_t)rg__least(stop - c->done, most);
        char *to = my_result(c, round) + bytes_of(c, c->done);
        combine(c, round, c->done, now, is_early ? block : to);
        if (is_early)
            rg__copy(to, block, bytes_of(c, now));
        c->done += now;
    }
    if (c->done == count)
        return end_round(c);
    c->stage = compute;
    return RG_IN_PROGRESS;
}

static rg_status begin_rounds(rg__mpi *c)
{
    const uint64_t n = (uint64_t)c->n, all = length(c);
    const uint64_t bytes = n > 4 ? n * PIECE_BYTES : 4 * PIECE_BYTES;
    c->round_count = bytes / c->element;
    if (rg__kind_scatters(c->coll.kind))
        c->round_count = c->round_count / n + 1;
    if (c->is_together)
        c->round_count = all;
    if (all == 0)
        return RG_OK;
    const uint64_t count = rg__least(all, c->round_count);
    const uint64_t each = rg__kind_scatters(c->coll.kind) || c->is_together
                              ? count
                              : (count + n - 1) / n;
    const uint64_t parts =
        rg__kind_scatters(c->coll.kind) || has_result(c) ? n - 1 : n;
    const uint64_t room = parts * rg__mpi_stride(bytes_of(c, each));
    const uint64_t mine = c->is_together ? 0 : each * (uint64_t)c->rank;
    rg_status st =
        rg__mpi_scratch(c, count < all ? 2 * room : room,
                        (const char *)c->coll.send + bytes_of(c, mine));
    if (st != RG_OK)
        return st;
    c->round[0].scratch = c->scratch;
    c->round[1].scratch = c->scratch + room;
    c->done = 0;
    c->stage = compute;
    st = post_round(c, &c->round[0]);
    /* together and in place, the result is about to overwrite what is sent */
    const bool is_sent_first = c->is_together && c->coll.send == c->coll.recv;
    c->needed = is_sent_first ? c->round[0].sent : c->round[0].heard;
    if (st == RG_OK && c->at < all)
        st = post_round(c, &c->round[1]);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

/* ------------------------------------------------------------------ to root */

/* The first addend is read before it is written to: data of one of the first
 * two others may be received where the result goes; -1: they may not. */
static int comes_there(const rg__mpi *c)
{
    const bool is_in_place = c->coll.send == c->coll.recv;
    return is_in_place ? -1 : c->rank == 0 ? 1 : 0;
}

static char *all_from(const rg__mpi *c, int r)
{
    const int there = comes_there(c);
    if (r == there)
        return c->coll.recv;
    const int index = (r < c->rank ? r : r - 1) - (there >= 0);
    return c->scratch +
           (uint64_t)index * rg__mpi_stride(bytes_of(c, c->coll.count));
}

/* at: elements that are computed. */
static rg_status add_up(rg__mpi *c)
{
    _Alignas(64) char block[RG__REDUCE_BLOCK];
    const void *src[RG__SOURCES_MAX];
    const rg__coll *o = &c->coll;
    const uint64_t stop =
        rg__least(o->count, c->at + RG__WORK_BYTES / c->element);
    const uint64_t most = RG__REDUCE_BLOCK / c->element;
    const bool is_early = c->rank > 1 && o->send == o->recv;
    while (c->at < stop) {
        const size_t now = (size_t)rg__least(stop - c->at, most);
        const size_t at = bytes_of(c, c->at);
        char *to = (char *)o->recv + at;
        for (int r = 0; r < c->n; r++)
            src[r] =
                r == c->rank ? (const char *)o->send + at : all_from(c, r) + at;
        rg__combine(o, is_early ? block : to, src, c->n, now, c->n);
        if (is_early)
            rg__copy(to, block, bytes_of(c, now));
        c->at += now;
    }
    return c->at == o->count ? RG_OK : RG_IN_PROGRESS;
}

static rg_status is_sent(rg__mpi *c)
{
    (void)c;
    return RG_OK;
}

static rg_status begin_to_root(rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    const int parts = c->n - 1 - (comes_there(c) >= 0);
    rg_status st;
    if (c->rank != o->root) {
        c->stage = is_sent;
        st = rg__mpi_send(c, o->root, o->send, o->count);
        return st == RG_OK ? RG_IN_PROGRESS : st;
    }
    c->stage = add_up;
    st = rg__mpi_scratch(
        c, (uint64_t)parts * rg__mpi_stride(bytes_of(c, o->count)), o->send);
    for (int r = 0; r < c->n && st == RG_OK; r++)
        if (r != c->rank)
            st = rg__mpi_recv(c, r, all_from(c, r), o->count);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

static bool goes_to_root(const rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    return o->kind == RG__REDUCE && o->count > 0 && c->n > 1 &&
           bytes_of(c, o->count) <= TO_ROOT / (uint64_t)(c->n - 1);
}

/* ----------------------------------------------------------------- in pairs */

/* done: the distance of this step's partner. The data of this rank and those
 * that it has exchanged with lie in recv, at first in send. */
static const void *brought_so_far(const rg__mpi *c)
{
    return c->done == 1 ? c->coll.send : c->coll.recv;
}

static rg_status join_partner(rg__mpi *c);

static rg_status exchange_with_partner(rg__mpi *c)
{
    const int partner = c->rank ^ (int)c->done;
    c->stage = join_partner;
    rg_status st = rg__mpi_recv(c, partner, c->scratch, c->coll.count);
    if (st == RG_OK)
        st = rg__mpi_send(c, partner, brought_so_far(c), c->coll.count);
    return st == RG_OK ? RG_IN_PROGRESS : st;
}

/* The lower ranks' first, so that both partners get equal bits. */
static rg_status join_partner(rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    const bool is_lower = (c->rank & (int)c->done) == 0;
    const bool is_last = 2 * c->done == (uint64_t)c->n;
    const void *src[2] = {c->scratch, c->scratch};
    src[!is_lower] = brought_so_far(c);
    rg__combine(o, o->recv, src, 2, (size_t)o->count, is_last ? c->n : 0);
    c->done *= 2;
    return is_last ? RG_OK : exchange_with_partner(c);
}

static rg_status begin_pairwise(rg__mpi *c)
{
    c->done = 1;
    const rg_status st =
        rg__mpi_scratch(c, bytes_of(c, c->coll.count), c->coll.send);
    return st == RG_OK ? exchange_with_partner(c) : st;
}

static bool mpi_has(const rg__coll *o)
{
    return o->type != RG_F16 && o->type != RG_BF16 && o->type != RG_BOOL &&
           rg__mpi_reduced_type(o->type) != MPI_DATATYPE_NULL &&
           o->prescale == 0;
}

/* Two exchange all they have, and a single step needs no thread between its
 * messages. Among more, F16 and BF16 would be rounded at each step, and scaled
 * more than once. */
static bool goes_pairwise(const rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    const uint64_t bytes = bytes_of(c, o->count);
    if (o->kind != RG__ALLREDUCE || bytes == 0)
        return false;
    if (c->n == 2)
        return bytes < AT_ONCE;
    return c->is_attended && bytes <= IN_PAIRS && c->n > 2 &&
           (c->n & (c->n - 1)) == 0 && mpi_has(o);
}

/* ------------------------------------------------------------------ choice */

/* Messages that MPI sends at once are worth another step. */
static bool is_small(const rg__mpi *c)
{
    const uint64_t bytes = bytes_of(c, c->coll.count);
    const uint64_t others = (uint64_t)c->n - 1;
    return bytes < AT_ONCE || (bytes >= AT_ONCE * (uint64_t)c->n &&
                               bytes <= TOGETHER && bytes * others <= HEARD);
}

/* Between two, all data are no more bytes than slices and results. */
static bool goes_together(const rg__mpi *c)
{
    const uint64_t most = c->n == 2 && !c->is_attended ? OF_TWO : 0;
    return c->coll.kind == RG__ALLREDUCE &&
           (is_small(c) || bytes_of(c, c->coll.count) <= most);
}

/* MPI's own operations progress in any MPI call. */
static bool is_left_to_mpi(const rg__mpi *c)
{
    return c->n > 1 && c->coll.kind == RG__ALLREDUCE && !c->is_attended &&
           !goes_together(c);
}

/* MPICH 4.0 treats the largest number of an unsigned type as -1. */
static bool mpi_compares(const rg__coll *o)
{
    uint64_t least = 0, most = UINT64_MAX;
    const bool is_unsigned =
        o->type == RG_U8 || o->type == RG_U32 || o->type == RG_U64;
    if (!is_unsigned || (o->op != RG_MIN && o->op != RG_MAX))
        return true;
    return MPI_Reduce_local(&least, &most, 1, rg__mpi_type(o->type), MPI_MIN) ==
               MPI_SUCCESS &&
           memcmp(&least, &most, rg_type_size(o->type)) == 0;
}

/* Open MPI's vector code ends sums of 8-bit integers at the largest one. */
static bool mpi_wraps(const rg__coll *o)
{
    uint8_t addend[64], sum[64], wrapped[64] = {0};
    const bool is_short = o->type == RG_U8 || o->type == RG_I8;
    if (!is_short || (o->op != RG_SUM && o->op != RG_AVG))
        return true;
    memset(addend, 128, sizeof addend);
    memset(sum, 128, sizeof sum);
    return MPI_Reduce_local(addend, sum, (int)sizeof sum, rg__mpi_type(o->type),
                            MPI_SUM) == MPI_SUCCESS &&
           memcmp(sum, wrapped, sizeof sum) == 0;
}

static bool goes_by_mpi(const rg__mpi *c)
{
    const rg__coll *o = &c->coll;
    const bool is_ours = c->n <= RG__SOURCES_MAX && depends_on_order(o);
    return !rg__kind_scatters(c->coll.kind) && mpi_has(o) && !is_ours &&
           mpi_compares(o) && mpi_wraps(o);
}

static rg_status choose(rg__mpi *c)
{
    const bool is_few = c->n <= RG__MPI_FEW && !is_left_to_mpi(c);
    const bool by_mpi = !is_few && goes_by_mpi(c);
    if (!by_mpi && c->n > RG__SOURCES_MAX)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "transport mpi has this operation, type or scale for "
                        "sets of up to %d members, and %s has %d",
                        RG__SOURCES_MAX, rg__set_words(c->id).text, c->n);
    if (is_few && goes_pairwise(c))
        return begin_pairwise(c);
    if (is_few && goes_to_root(c))
        return begin_to_root(c);
    c->is_together = is_few && goes_together(c);
    c->stage = by_mpi ? whole : begin_rounds;
    return c->stage(c);
}

/* ------------------------------------------------------------- who attends
 * Below MPI_THREAD_MULTIPLE no thread takes an operation from one stage to the
 * next while the program is inside MPI, and in an allreduce other ranks wait
 * for that. A rank whose caller stays in Regroup says so; if all do, an
 * operation goes in stages, as with MPI_THREAD_MULTIPLE. A rank that does not
 * waits for no answer: it knows the outcome. */

static rg_status take_answers(rg__mpi *c)
{
    c->is_attended = true;
    for (int r = 0; r < c->n; r++)
        c->is_attended &= r == c->rank || c->collected[r] != 0;
    c->needed = RG__ALL;
    return choose(c);
}

static rg_status ask(rg__mpi *c)
{
    const bool stays = c->coll.is_awaited || rg__mpi_is_multiple();
    rg_status st = RG_OK;
    for (int i = 1; i < c->n && st == RG_OK; i++)
        st = rg__mpi_collect(c, (c->rank + c->n - i) % c->n);
    c->needed = c->requests;
    for (int i = 1; i < c->n && st == RG_OK; i++) {
        const int to = (c->rank + i) % c->n;
        c->told[to] = stays;
        st = rg__mpi_tell(c, to);
    }
    if (st != RG_OK)
        return st;
    c->stage = take_answers;
    if (stays)
        return RG_IN_PROGRESS;
    c->needed = RG__ALL;
    return choose(c);
}

/* In larger sets they are MPI's, whoever attends. */
static bool is_worth_asking(const rg__mpi *c)
{
    return c->coll.kind == RG__ALLREDUCE && c->n > 1 && c->n <= RG__MPI_FEW &&
           !is_small(c) && (c->n > 2 || bytes_of(c, c->coll.count) > AGREED);
}

static rg_status begin(rg__mpi *c)
{
    c->is_attended = rg__mpi_are_multiple();
    return !c->is_attended && is_worth_asking(c) ? ask(c) : choose(c);
}

rg__stage_fn rg__mpi_reduces(const rg__mpi *c)
{
    (void)c;
    return begin;
}
