/* Gathers, scatters, alltoalls and uneven allgathers on one host.
 *
 * What member i sends is a stream: the parts for members i+1, i+2 .. i-1, one
 * after the other, so that different members read different parts at any time
 * (an allgather's stream is one part that all read). With uneven counts each
 * member publishes its counts in its medium slot; every member compares all of
 * them, so a difference is known everywhere before a byte is written.
 *
 *   all streams fit the mailboxes (even)    read there
 *   all streams <= SMALL_BYTES              read the slots
 *   otherwise, for each stream:
 *     sent from rg_alloc memory             read there
 *     parts of read_min and more            read by the kernel (read.c)
 *     else                                  in steps through its owner's
 *                                           staging slots (staged.c)
 *
 * Every member makes as many steps as the longest staged stream needs.
 *
 * An alltoall in place overwrites what it sends. If one member's is in place,
 * streams have another order: in each turn members exchange their parts two by
 * two, padded to the turn's longest, so that what arrives replaces what was
 * copied out in the same step. No member needs extra memory, which for
 * gigabytes is slow to get and, with the engine's lock held, to give back. */
#include "sdk/transport/shm/pairwise.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"

/* ----------------------------------------------------------------- a stream */

/* What all members know of all streams; owned by the comm. */
struct rg__pairwise {
    uint64_t *counts;  /* of all members, if uneven */
    bool is_exchange;  /* pairs exchange parts, turn by turn */
    uint64_t *turn_at; /* where each turn begins in a stream, and the end */
    uint32_t steps;    /* of the longest stream that is staged */
};

#define IN_PLACE 1 /* where.recv_segment of an alltoall in place */

static size_t element(const rg__native *c)
{
    return rg_type_size(c->coll.type);
}

static bool is_one_for_all(const rg__native *c)
{
    return c->coll.kind == RG__ALLGATHERV;
}

static uint64_t part_bytes(const rg__native *c, int from, int to)
{
    if (!rg__kind_is_uneven(c->coll.kind))
        return rg__pairwise_count(&c->coll, c->rank, from, to) * element(c);
    const size_t each = (size_t)(RG__PAIRWISE_COUNTS * c->n);
    return c->pairwise->counts[(size_t)from * each + (size_t)to] * element(c);
}

/* Where a part begins in the memory that `from` sends. */
static uint64_t part_at(const rg__native *c, int from, int to)
{
    if (!rg__kind_is_uneven(c->coll.kind))
        return rg__pairwise_send_at(&c->coll, from, to) * element(c);
    const size_t each = (size_t)(RG__PAIRWISE_COUNTS * c->n);
    return c->pairwise->counts[(size_t)from * each + (size_t)(c->n + to)] *
           element(c);
}

static int turn_of(int n, int one, int other)
{
    int turn = 0;
    while (rg__pairwise_partner(n, one, turn) != other)
        turn++;
    return turn;
}

/* Where the part for `to` begins in the stream; to == from: its end. */
static uint64_t stream_at(const rg__native *c, int from, int to)
{
    if (c->pairwise->is_exchange)
        return c->pairwise->turn_at[to == from ? rg__pairwise_turns(c->n)
                                               : turn_of(c->n, from, to)];
    if (is_one_for_all(c))
        return to == from ? part_bytes(c, from, from) : 0;
    uint64_t at = 0;
    for (int i = (from + 1) % c->n; i != to; i = (i + 1) % c->n)
        at += part_bytes(c, from, i);
    return at;
}

static uint64_t stream_bytes(const rg__native *c, int from)
{
    return c->n == 1 ? 0 : stream_at(c, from, from);
}

/* The size of my part for `to`, known before any member has posted. */
static uint64_t my_part_bytes(const rg__native *c, int to)
{
    return rg__pairwise_count(&c->coll, c->rank, c->rank, to) * element(c);
}

static uint64_t my_stream_bytes(const rg__native *c)
{
    uint64_t sum = 0;
    for (int to = 0; to < c->n; to++)
        if (to != c->rank)
            sum = is_one_for_all(c) ? my_part_bytes(c, to)
                                    : sum + my_part_bytes(c, to);
    return sum;
}

/* Copy to out those of the bytes [begin, end) of my stream that belong to the
 * part for `to`, which begins at `at`. */
static void copy_part(const rg__native *c, char *out, uint64_t begin,
                      uint64_t end, int to, uint64_t at)
{
    const uint64_t part = my_part_bytes(c, to);
    const uint64_t low = at > begin ? at : begin;
    const uint64_t high = at + part < end ? at + part : end;
    if (low < high)
        rg__copy(out + (low - begin),
                 rg__pairwise_out(&c->coll, c->rank, to) + (low - at),
                 (size_t)(high - low));
}

static void copy_turns(const rg__native *c, char *out, uint64_t begin,
                       uint64_t end)
{
    const uint64_t *at = c->pairwise->turn_at;
    for (int turn = 0; turn < rg__pairwise_turns(c->n) && at[turn] < end;
         turn++) {
        const int to = rg__pairwise_partner(c->n, c->rank, turn);
        if (to != c->rank && at[turn + 1] > begin)
            copy_part(c, out, begin, end, to, at[turn]);
    }
}

/* Copy bytes [begin, begin + bytes) of my stream. */
static void copy_stream(const rg__native *c, char *out, uint64_t begin,
                        uint64_t bytes)
{
    const uint64_t end = begin + bytes;
    uint64_t at = 0;
    if (c->pairwise->is_exchange) {
        copy_turns(c, out, begin, end);
        return;
    }
    for (int i = 1; i < c->n && at < end; i++) {
        const int to = (c->rank + i) % c->n;
        copy_part(c, out, begin, end, to, at);
        if (is_one_for_all(c))
            return;
        at += my_part_bytes(c, to);
    }
}

/* -------------------------------------------------------------- publishing */

#define COUNTS_BYTES(n) ((size_t)(RG__PAIRWISE_COUNTS * (n)) * sizeof(uint64_t))

_Static_assert(COUNTS_BYTES(RG__HOST_SLOTS_MAX) + SMALL_BYTES <= MEDIUM_BYTES,
               "the counts and small data fit a medium slot");

static bool is_alltoall(const rg__native *c)
{
    return c->coll.kind == RG__ALLTOALL || c->coll.kind == RG__ALLTOALLV;
}

/* In place, the part that I send to a member is exactly where I receive from
 * it, or outside of everything that I receive. */
static bool is_in_place(const rg__native *c)
{
    return is_alltoall(c) && c->coll.send == c->coll.recv;
}

static void describe(const rg__native *c, rg__where *w)
{
    uint64_t end = 0, most = 0;
    memset(w, 0, sizeof *w);
    for (int to = 0; to < c->n; to++) {
        const uint64_t bytes = my_part_bytes(c, to);
        const uint64_t at =
            rg__pairwise_send_at(&c->coll, c->rank, to) * element(c);
        if (bytes > 0 && at + bytes > end)
            end = at + bytes;
        if (to != c->rank && bytes > most)
            most = bytes;
    }
    if (end > 0 && is_in_place(c))
        w->recv_segment = IN_PLACE;
    else if (end > 0)
        rg__zero_copy_describe_send(c, end, most, w);
}

rg_status rg__pairwise_make(rg__native *c)
{
    if (c->pairwise == NULL)
        c->pairwise = calloc(1, sizeof *c->pairwise);
    if (c->pairwise == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    if (c->pairwise->counts == NULL)
        c->pairwise->counts = malloc((size_t)c->n * COUNTS_BYTES(c->n));
    if (c->pairwise->turn_at == NULL)
        c->pairwise->turn_at =
            malloc(((size_t)c->n + 1) * sizeof *c->pairwise->turn_at);
    if (c->pairwise->counts == NULL || c->pairwise->turn_at == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    return RG_OK;
}

void rg__pairwise_begin(rg__native *c)
{
    const rg__kind kind = c->coll.kind;
    const uint64_t bytes = my_stream_bytes(c);
    /* even counts: the longest stream's length, the same on all */
    const uint64_t others = (uint64_t)c->n - 1;
    const uint64_t part = c->coll.count * element(c);
    c->pairwise->is_exchange = false;
    c->bytes = rg__kind_is_uneven(kind) ? bytes
               : kind == RG__GATHER     ? part
                                        : others * part;
}

void rg__pairwise_publish(rg__native *c)
{
    rg__posting *mine = &c->member[c->rank].mailbox->entry[c->ops & 1].posting;
    const uint64_t bytes = my_stream_bytes(c);
    if (!rg__kind_is_uneven(c->coll.kind)) {
        if (c->bytes > INLINE_BYTES)
            describe(c, &mine->at);
        if (c->bytes <= INLINE_BYTES)
            copy_stream(c, mine->data, 0, bytes);
        else if (c->bytes <= SMALL_BYTES)
            copy_stream(c, rg__shm_small(c, c->rank), 0, bytes);
        return;
    }
    describe(c, &mine->at);
    char *slot = rg__shm_medium(c, c->rank);
    rg__pairwise_list(&c->coll, c->rank, c->n, (uint64_t *)(void *)slot);
    if (bytes <= SMALL_BYTES)
        copy_stream(c, slot + COUNTS_BYTES(c->n), 0, bytes);
}

/* ---------------------------------------------------------------- the end */

static void copy_own(const rg__native *c)
{
    const uint64_t bytes = my_part_bytes(c, c->rank);
    const char *from = rg__pairwise_out(&c->coll, c->rank, c->rank);
    if (bytes > 0 && rg__pairwise_in(&c->coll, c->rank, c->rank) != from)
        rg__copy(rg__pairwise_in(&c->coll, c->rank, c->rank), from,
                 (size_t)bytes);
}

static const char *small_of(const rg__native *c, int m)
{
    if (rg__kind_is_uneven(c->coll.kind))
        return rg__shm_medium(c, m) + COUNTS_BYTES(c->n);
    return c->bytes <= INLINE_BYTES ? c->posting[m].data : rg__shm_small(c, m);
}

static rg_status read_small(rg__native *c)
{
    copy_own(c);
    for (int m = 0; m < c->n; m++) {
        const uint64_t bytes = part_bytes(c, m, c->rank);
        if (m != c->rank && bytes > 0)
            rg__copy(rg__pairwise_in(&c->coll, c->rank, m),
                     small_of(c, m) + stream_at(c, m, c->rank), (size_t)bytes);
    }
    c->base.moves++;
    return RG_OK;
}

/* ---------------------------------------------------------------- zero copy */

static bool is_zero_copy(const rg__native *c, int m)
{
    return m == c->rank || c->posting[m].at.send_segment != 0;
}

/* Where member m's part for me is; IN_PROGRESS: its mapping has not arrived. */
static rg_status locate(const rg__native *c, int m, const char **from_p)
{
    if (m == c->rank) {
        *from_p = rg__pairwise_out(&c->coll, c->rank, m);
        return RG_OK;
    }
    return rg__zero_copy_locate_part(c, m, part_at(c, m, c->rank),
                                     part_bytes(c, m, c->rank), from_p);
}

/* Copy a piece of a stream read in place, beginning with mine; OK: all done. */
static rg_status copy_direct(rg__native *c)
{
    for (; c->peer < c->n; c->peer++, c->at = 0) {
        const int m = (c->rank + c->peer) % c->n;
        const uint64_t bytes = part_bytes(c, m, c->rank);
        const char *from = NULL;
        if (!is_zero_copy(c, m) || bytes == 0)
            continue;
        const rg_status st = locate(c, m, &from);
        if (st != RG_OK)
            return st;
        if (m == c->rank && from == rg__pairwise_in(&c->coll, c->rank, m))
            continue;
        if (!rg__read_take(c, m, c->posting[m].at.send_segment,
                           rg__pairwise_in(&c->coll, c->rank, m), from, bytes))
            return RG_IN_PROGRESS;
    }
    return RG_OK;
}

/* ------------------------------------------------------------------ staged */

static bool may_copy_in(const rg__native *c)
{
    return c->in < c->pairwise->steps &&
           rg__shm_all_posted(c, FLAG_DONE, c->in + 1 - STAGES);
}

static void copy_in(rg__native *c)
{
    const uint32_t step = c->in + 1;
    const uint64_t begin = (uint64_t)(step - 1) * STAGE_BYTES;
    const uint64_t bytes = stream_bytes(c, c->rank);
    if (c->posting[c->rank].at.send_segment == 0 && begin < bytes)
        copy_stream(c, rg__shm_slot(c, c->rank, step), begin,
                    bytes - begin < STAGE_BYTES ? bytes - begin : STAGE_BYTES);
    c->in++;
    c->base.moves++;
    rg__shm_post(c, FLAG_IN, c->in);
}

/* Take my share of a step of member m's stream. */
static void take_from(const rg__native *c, int m, uint32_t step)
{
    const uint64_t begin = (uint64_t)(step - 1) * STAGE_BYTES;
    const uint64_t end = begin + STAGE_BYTES;
    const uint64_t at = stream_at(c, m, c->rank);
    const uint64_t bytes = part_bytes(c, m, c->rank);
    const uint64_t low = at > begin ? at : begin;
    const uint64_t high = at + bytes < end ? at + bytes : end;
    if (low < high)
        rg__copy(rg__pairwise_in(&c->coll, c->rank, m) + (low - at),
                 rg__shm_slot(c, m, step) + (low - begin),
                 (size_t)(high - low));
}

static void take_step(rg__native *c)
{
    const uint32_t step = c->done + 1;
    for (int m = 0; m < c->n; m++)
        if (!is_zero_copy(c, m))
            take_from(c, m, step);
    c->done++;
    c->base.moves++;
    if (c->done < c->last)
        rg__shm_post(c, FLAG_DONE, c->done);
}

/* Wait until no other member reads my memory any more. */
static rg_status await_readers(rg__native *c)
{
    if (rg__read_is_used(c))
        return rg__read_end(c);
    return c->posting[c->rank].at.send_segment == 0 ||
                   rg__shm_all_posted(c, FLAG_DONE, c->last)
               ? RG_OK
               : RG_IN_PROGRESS;
}

static rg_status advance_large(rg__native *c)
{
    if (may_copy_in(c)) {
        copy_in(c);
        return RG_IN_PROGRESS;
    }
    if (c->done < c->pairwise->steps) {
        if (rg__shm_all_posted(c, FLAG_IN, c->done + 1))
            take_step(c);
        return RG_IN_PROGRESS;
    }
    if (c->out == 0) {
        const rg_status st = copy_direct(c);
        if (st != RG_OK)
            return st;
        c->out = 1;
        c->base.moves++;
        rg__read_post(c);
    }
    return await_readers(c);
}

/* ------------------------------------------------------------------- begin */

static rg_status read_counts(rg__native *c)
{
    const size_t bytes = COUNTS_BYTES(c->n);
    for (int m = 0; m < c->n; m++)
        rg__copy((char *)c->pairwise->counts + (size_t)m * bytes,
                 rg__shm_medium(c, m), bytes);
    rg__pairwise_list(&c->coll, c->rank, c->n,
                      c->pairwise->counts +
                          (size_t)(RG__PAIRWISE_COUNTS * c->n * c->rank));
    return rg__pairwise_compare(c->id, c->coll.kind, c->pairwise->counts, c->n);
}

static uint64_t longest_stream(const rg__native *c, bool only_staged)
{
    uint64_t longest = 0;
    for (int m = 0; m < c->n; m++) {
        const bool counts = !only_staged || c->posting[m].at.send_segment == 0;
        const uint64_t bytes = counts ? stream_bytes(c, m) : 0;
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

static bool is_any_in_place(const rg__native *c)
{
    bool is_any = false;
    for (int m = 0; m < c->n; m++)
        is_any |= c->posting[m].at.recv_segment == IN_PLACE;
    return is_any && is_alltoall(c);
}

static void take_turns(rg__native *c)
{
    uint64_t *at = c->pairwise->turn_at;
    at[0] = 0;
    for (int turn = 0; turn < rg__pairwise_turns(c->n); turn++) {
        uint64_t longest = 0;
        for (int m = 0; m < c->n; m++) {
            const int to = rg__pairwise_partner(c->n, m, turn);
            const uint64_t bytes = to == m ? 0 : part_bytes(c, m, to);
            longest = bytes > longest ? bytes : longest;
        }
        at[turn + 1] = at[turn] + longest;
    }
    c->pairwise->is_exchange = true;
}

static rg_status begin_large(rg__native *c)
{
    struct rg__pairwise *p = c->pairwise;
    if (is_any_in_place(c))
        take_turns(c);
    const uint64_t longest = longest_stream(c, true);
    p->steps = (uint32_t)((longest + STAGE_BYTES - 1) / STAGE_BYTES);
    c->last = p->steps > 0 ? p->steps : 1;
    c->advance = advance_large;
    return RG_OK;
}

rg_status rg__pairwise_choose(rg__native *c)
{
    const rg_status st =
        rg__kind_is_uneven(c->coll.kind) ? read_counts(c) : RG_OK;
    if (st != RG_OK)
        return st;
    const uint64_t longest =
        rg__kind_is_uneven(c->coll.kind) ? longest_stream(c, false) : c->bytes;
    if (longest > SMALL_BYTES)
        return begin_large(c);
    c->advance = read_small;
    return RG_OK;
}

void rg__pairwise_free(rg__native *c)
{
    if (c->pairwise == NULL)
        return;
    free(c->pairwise->turn_at);
    free(c->pairwise->counts);
    free(c->pairwise);
    c->pairwise = NULL;
}
