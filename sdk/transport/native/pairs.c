/* Gathers, scatters, alltoalls and uneven allgathers on one host.
 *
 * What member i sends is a stream: the parts for members i+1, i+2 .. i-1 one
 * behind the other, so that at any time each of them is read by another member
 * (an allgather's stream is one part that all read). With uneven counts each
 * member publishes its counts in its medium slot; all read and compare all of
 * them, so that a difference is known everywhere before a byte was written.
 *
 *   all streams fit a line (even counts)    read the lines
 *   all streams <= SMALL_BYTES              read the slots
 *   otherwise, for each stream:
 *     sent from rg_alloc memory             read there
 *     else                                  in steps through its owner's
 *                                           staging slots (staged.c)
 *
 * Everybody makes as many steps as the longest staged stream needs. */
#include "sdk/transport/native/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

/* --------------------------------------------------------- counts and places
 */

uint64_t rg__pairs_count(const rg__coll *o, int me, int from, int to)
{
    switch (o->kind) {
    case RG__GATHER:
        return to == o->root ? o->count : 0;
    case RG__SCATTER:
        return from == o->root ? o->count : 0;
    case RG__ALLTOALL:
        return o->count;
    case RG__ALLGATHERV:
        return o->recv_counts[from];
    case RG__GATHERV:
        if (to != o->root)
            return 0;
        return me == to ? o->recv_counts[from] : o->count;
    case RG__SCATTERV:
        if (from != o->root)
            return 0;
        return me == from ? o->send_counts[to] : o->count;
    case RG__ALLTOALLV:
        return me == from ? o->send_counts[to] : o->recv_counts[from];
    default:
        return 0;
    }
}

uint64_t rg__pairs_send_at(const rg__coll *o, int me, int to)
{
    switch (o->kind) {
    case RG__SCATTER:
    case RG__ALLTOALL:
        return (uint64_t)to * o->count;
    case RG__SCATTERV:
        return me == o->root ? o->send_places[to] : 0;
    case RG__ALLTOALLV:
        return o->send_places[to];
    default:
        return 0;
    }
}

uint64_t rg__pairs_recv_at(const rg__coll *o, int me, int from)
{
    switch (o->kind) {
    case RG__GATHER:
    case RG__ALLTOALL:
        return (uint64_t)from * o->count;
    case RG__GATHERV:
        return me == o->root ? o->recv_places[from] : 0;
    case RG__ALLGATHERV:
    case RG__ALLTOALLV:
        return o->recv_places[from];
    default:
        return 0;
    }
}

void rg__pairs_say(const rg__coll *o, int me, int n, uint64_t *counts)
{
    for (int r = 0; r < n; r++) {
        counts[r] = rg__pairs_count(o, me, me, r);
        counts[n + r] = rg__pairs_send_at(o, me, r);
        counts[2 * n + r] = rg__pairs_count(o, me, r, me);
    }
}

/* No memory has as many elements; the bytes of all members' fit 64 bits. */
#define COUNT_MAX (UINT64_C(1) << 48)

static rg_status refuse_two_counts(uint32_t id, int from, int to, uint64_t one,
                                   uint64_t other)
{
    return rg__fail(RG_ERR_MISMATCH,
                    "allgatherv on set %u: rank %d sends %llu elements to rank "
                    "%d and %llu to itself, where all get the same; some "
                    "worker writes over shared memory",
                    id, from, (unsigned long long)one, to,
                    (unsigned long long)other);
}

rg_status rg__pairs_compare(uint32_t id, rg__kind kind, const uint64_t *counts,
                            int n)
{
    const size_t each = (size_t)(RG__PAIRS_SAID * n);
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            const uint64_t out = counts[(size_t)from * each + (size_t)to];
            const uint64_t in =
                counts[(size_t)to * each + (size_t)(2 * n + from)];
            const uint64_t own = counts[(size_t)from * each + (size_t)from];
            if (out != in || out > COUNT_MAX)
                return rg__fail(
                    RG_ERR_MISMATCH,
                    "%s on set %u: rank %d sends %llu elements to rank %d, "
                    "which expects %llu; give the same count on both",
                    rg__native_kind_name(kind), id, from,
                    (unsigned long long)out, to, (unsigned long long)in);
            if (kind == RG__ALLGATHERV && out != own)
                return refuse_two_counts(id, from, to, out, own);
        }
    return RG_OK;
}

/* ----------------------------------------------------------------- a stream */

/* What all members know of all streams, in bytes; owned by the comm. */
struct pairs {
    uint64_t *said; /* uneven: of all members */
    char *copy;     /* of what I send, where recv takes its place; owned */
    uint64_t copied, to_copy;
    uint32_t steps; /* of the longest stream that is staged */
};

static size_t element(const comm *c)
{
    return rg_type_size(c->coll.type);
}

static bool is_one_for_all(const comm *c)
{
    return c->coll.kind == RG__ALLGATHERV;
}

static uint64_t part_bytes(const comm *c, int from, int to)
{
    if (!rg__pairs_is_uneven(c->coll.kind))
        return rg__pairs_count(&c->coll, c->rank, from, to) * element(c);
    const size_t each = (size_t)(RG__PAIRS_SAID * c->n);
    return c->pairs->said[(size_t)from * each + (size_t)to] * element(c);
}

/* Where a part begins in the memory that `from` sends. */
static uint64_t part_at(const comm *c, int from, int to)
{
    if (!rg__pairs_is_uneven(c->coll.kind))
        return rg__pairs_send_at(&c->coll, from, to) * element(c);
    const size_t each = (size_t)(RG__PAIRS_SAID * c->n);
    return c->pairs->said[(size_t)from * each + (size_t)(c->n + to)] *
           element(c);
}

/* Where the part for `to` begins in the stream; to == from: its length. */
static uint64_t stream_at(const comm *c, int from, int to)
{
    if (is_one_for_all(c))
        return to == from ? part_bytes(c, from, from) : 0;
    uint64_t at = 0;
    for (int i = (from + 1) % c->n; i != to; i = (i + 1) % c->n)
        at += part_bytes(c, from, i);
    return at;
}

static uint64_t stream_bytes(const comm *c, int from)
{
    return c->n == 1 ? 0 : stream_at(c, from, from);
}

/* My own parts, before anybody has said anything. */
static uint64_t my_part_bytes(const comm *c, int to)
{
    return rg__pairs_count(&c->coll, c->rank, c->rank, to) * element(c);
}

static uint64_t my_stream_bytes(const comm *c)
{
    uint64_t sum = 0;
    for (int to = 0; to < c->n; to++)
        if (to != c->rank)
            sum = is_one_for_all(c) ? my_part_bytes(c, to)
                                    : sum + my_part_bytes(c, to);
    return sum;
}

static const char *my_part(const comm *c, int to)
{
    const char *send =
        c->pairs->copy != NULL ? c->pairs->copy : (const char *)c->coll.send;
    return send + rg__pairs_send_at(&c->coll, c->rank, to) * element(c);
}

static char *place_of(const comm *c, int from)
{
    return (char *)c->coll.recv +
           rg__pairs_recv_at(&c->coll, c->rank, from) * element(c);
}

/* Copy bytes [begin, begin + bytes) of my stream. */
static void copy_stream(const comm *c, char *out, uint64_t begin,
                        uint64_t bytes)
{
    const uint64_t end = begin + bytes;
    uint64_t at = 0;
    for (int i = 1; i < c->n && at < end; i++) {
        const int to = (c->rank + i) % c->n;
        const uint64_t part = my_part_bytes(c, to);
        const uint64_t low = at > begin ? at : begin;
        const uint64_t high = at + part < end ? at + part : end;
        if (low < high)
            memcpy(out + (low - begin), my_part(c, to) + (low - at),
                   (size_t)(high - low));
        if (is_one_for_all(c))
            return;
        at += part;
    }
}

/* -------------------------------------------------------------- publishing */

#define COUNTS_BYTES(n) ((size_t)(RG__PAIRS_SAID * (n)) * sizeof(uint64_t))

_Static_assert(COUNTS_BYTES(RG__HOST_SLOTS_MAX) + SMALL_BYTES <= MEDIUM_BYTES,
               "the counts and small data fit a medium slot");

static char *slot_of(const comm *c, int m)
{
    return c->member[m].medium + (c->ops & 1) * MEDIUM_BYTES;
}

static bool is_in_place(const comm *c)
{
    return c->coll.send == c->coll.recv &&
           (c->coll.kind == RG__ALLTOALL || c->coll.kind == RG__ALLTOALLV);
}

static void say_where(const comm *c, where *w)
{
    uint64_t end = 0;
    memset(w, 0, sizeof *w);
    for (int to = 0; to < c->n; to++) {
        const uint64_t bytes = my_part_bytes(c, to);
        const uint64_t at =
            rg__pairs_send_at(&c->coll, c->rank, to) * element(c);
        if (bytes > 0 && at + bytes > end)
            end = at + bytes;
    }
    if (end > 0 && !is_in_place(c))
        rg__native_say_send(c, end, w);
}

rg_status rg__pairs_make(comm *c)
{
    if (c->pairs == NULL)
        c->pairs = calloc(1, sizeof *c->pairs);
    if (c->pairs == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    if (c->pairs->said == NULL)
        c->pairs->said = malloc((size_t)c->n * COUNTS_BYTES(c->n));
    if (c->pairs->said == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    return RG_OK;
}

void rg__pairs_begin(comm *c)
{
    const rg__kind kind = c->coll.kind;
    const uint64_t bytes = my_stream_bytes(c);
    /* even counts: as long as the longest stream, so the same for all */
    const uint64_t others = (uint64_t)c->n - 1;
    const uint64_t part = c->coll.count * element(c);
    c->bytes = rg__pairs_is_uneven(kind) ? bytes
               : kind == RG__GATHER      ? part
                                         : others * part;
}

void rg__pairs_publish(comm *c)
{
    said *mine = &c->member[c->rank].lines->line[c->ops & 1].said;
    const uint64_t bytes = my_stream_bytes(c);
    if (!rg__pairs_is_uneven(c->coll.kind)) {
        if (c->bytes > INLINE_BYTES)
            say_where(c, &mine->at);
        if (c->bytes <= INLINE_BYTES)
            copy_stream(c, mine->data, 0, bytes);
        else if (c->bytes <= SMALL_BYTES)
            copy_stream(c, rg__native_small(c, c->rank), 0, bytes);
        return;
    }
    say_where(c, &mine->at);
    char *slot = slot_of(c, c->rank);
    rg__pairs_say(&c->coll, c->rank, c->n, (uint64_t *)(void *)slot);
    if (bytes <= SMALL_BYTES)
        copy_stream(c, slot + COUNTS_BYTES(c->n), 0, bytes);
}

/* ---------------------------------------------------------------- the end */

static void copy_own(const comm *c)
{
    const uint64_t bytes = my_part_bytes(c, c->rank);
    const char *from = my_part(c, c->rank);
    if (bytes > 0 && place_of(c, c->rank) != from)
        memcpy(place_of(c, c->rank), from, (size_t)bytes);
}

static const char *small_of(const comm *c, int m)
{
    if (rg__pairs_is_uneven(c->coll.kind))
        return slot_of(c, m) + COUNTS_BYTES(c->n);
    return c->bytes <= INLINE_BYTES ? c->said[m].data : rg__native_small(c, m);
}

static rg_status read_small(comm *c)
{
    copy_own(c);
    for (int m = 0; m < c->n; m++) {
        const uint64_t bytes = part_bytes(c, m, c->rank);
        if (m != c->rank && bytes > 0)
            memcpy(place_of(c, m), small_of(c, m) + stream_at(c, m, c->rank),
                   (size_t)bytes);
    }
    c->base.moves++;
    return RG_OK;
}

/* ------------------------------------------------------------------ direct */

static bool is_direct(const comm *c, int m)
{
    return m == c->rank || c->said[m].at.send_segment != 0;
}

/* Where member m's part for me lies; IN_PROGRESS: it has not arrived. */
static rg_status locate(const comm *c, int m, const char **from_p)
{
    if (m == c->rank) {
        *from_p = my_part(c, m);
        return RG_OK;
    }
    return rg__native_locate_part(c, m, part_at(c, m, c->rank),
                                  part_bytes(c, m, c->rank), from_p);
}

/* A piece of one direct stream; OK: all of them are copied. */
static rg_status copy_direct(comm *c)
{
    for (; c->peer < c->n; c->peer++, c->at = 0) {
        const int m = c->peer;
        const uint64_t bytes = part_bytes(c, m, c->rank);
        const char *from = NULL;
        if (!is_direct(c, m) || bytes == 0)
            continue;
        const rg_status st = locate(c, m, &from);
        if (st != RG_OK)
            return st;
        if (from == place_of(c, m))
            continue;
        const uint64_t left = bytes - c->at;
        const size_t now =
            left < RG__WORK_BYTES ? (size_t)left : RG__WORK_BYTES;
        memcpy(place_of(c, m) + c->at, from + c->at, now);
        c->at += now;
        c->base.moves++;
        if (c->at < bytes)
            return RG_IN_PROGRESS;
    }
    return RG_OK;
}

/* ------------------------------------------------------------------ staged */

static char *stage_of(const comm *c, int m, uint32_t step)
{
    return c->member[m].staging +
           (size_t)((c->steps + step) % STAGES) * STAGE_BYTES;
}

static bool may_copy_in(const comm *c)
{
    return c->in < c->pairs->steps &&
           rg__native_all_posted(c, FLAG_DONE, c->in + 1 - STAGES);
}

static void copy_in(comm *c)
{
    const uint32_t step = c->in + 1;
    const uint64_t begin = (uint64_t)(step - 1) * STAGE_BYTES;
    const uint64_t bytes = my_stream_bytes(c);
    if (c->said[c->rank].at.send_segment == 0 && begin < bytes)
        copy_stream(c, stage_of(c, c->rank, step), begin,
                    bytes - begin < STAGE_BYTES ? bytes - begin : STAGE_BYTES);
    c->in++;
    c->base.moves++;
    rg__native_post(c, FLAG_IN, c->in);
}

/* What a step of member m's stream has for me. */
static void take_from(const comm *c, int m, uint32_t step)
{
    const uint64_t begin = (uint64_t)(step - 1) * STAGE_BYTES;
    const uint64_t end = begin + STAGE_BYTES;
    const uint64_t at = stream_at(c, m, c->rank);
    const uint64_t bytes = part_bytes(c, m, c->rank);
    const uint64_t low = at > begin ? at : begin;
    const uint64_t high = at + bytes < end ? at + bytes : end;
    if (low < high)
        memcpy(place_of(c, m) + (low - at),
               stage_of(c, m, step) + (low - begin), (size_t)(high - low));
}

static void take_step(comm *c)
{
    const uint32_t step = c->done + 1;
    for (int m = 0; m < c->n; m++)
        if (!is_direct(c, m))
            take_from(c, m, step);
    c->done++;
    c->base.moves++;
    if (c->done < c->last)
        rg__native_post(c, FLAG_DONE, c->done);
}

/* Make room in front of what would be overwritten before it was sent. */
static bool copy_apart(comm *c)
{
    struct pairs *p = c->pairs;
    const uint64_t left = p->to_copy - p->copied;
    const size_t now = left < RG__WORK_BYTES ? (size_t)left : RG__WORK_BYTES;
    if (now == 0)
        return false;
    memcpy(p->copy + p->copied, (const char *)c->coll.send + p->copied, now);
    p->copied += now;
    c->base.moves++;
    return true;
}

/* Others may still read my memory. */
static rg_status await_readers(const comm *c)
{
    return c->said[c->rank].at.send_segment == 0 ||
                   rg__native_all_posted(c, FLAG_DONE, c->last)
               ? RG_OK
               : RG_IN_PROGRESS;
}

static rg_status advance_large(comm *c)
{
    if (copy_apart(c))
        return RG_IN_PROGRESS;
    if (may_copy_in(c)) {
        copy_in(c);
        return RG_IN_PROGRESS;
    }
    if (c->done < c->pairs->steps) {
        if (rg__native_all_posted(c, FLAG_IN, c->done + 1))
            take_step(c);
        return RG_IN_PROGRESS;
    }
    if (c->out == 0) {
        const rg_status st = copy_direct(c);
        if (st != RG_OK)
            return st;
        c->out = 1;
        c->base.moves++;
        rg__native_post_end(c);
    }
    return await_readers(c);
}

/* ------------------------------------------------------------------- begin */

static rg_status read_counts(comm *c)
{
    const size_t bytes = COUNTS_BYTES(c->n);
    for (int m = 0; m < c->n; m++)
        memcpy((char *)c->pairs->said + (size_t)m * bytes, slot_of(c, m),
               bytes);
    rg__pairs_say(&c->coll, c->rank, c->n,
                  c->pairs->said + (size_t)(RG__PAIRS_SAID * c->n * c->rank));
    return rg__pairs_compare(c->id, c->coll.kind, c->pairs->said, c->n);
}

static uint64_t longest_stream(const comm *c, bool only_staged)
{
    uint64_t longest = 0;
    for (int m = 0; m < c->n; m++) {
        const bool counts = !only_staged || c->said[m].at.send_segment == 0;
        const uint64_t bytes = counts ? stream_bytes(c, m) : 0;
        longest = bytes > longest ? bytes : longest;
    }
    return longest;
}

static uint64_t send_end(const comm *c)
{
    uint64_t end = 0;
    for (int to = 0; to < c->n; to++) {
        const uint64_t at =
            rg__pairs_send_at(&c->coll, c->rank, to) * element(c);
        const uint64_t bytes = my_part_bytes(c, to);
        if (bytes > 0 && at + bytes > end)
            end = at + bytes;
    }
    return end;
}

static rg_status begin_large(comm *c)
{
    struct pairs *p = c->pairs;
    const uint64_t longest = longest_stream(c, true);
    p->steps = (uint32_t)((longest + STAGE_BYTES - 1) / STAGE_BYTES);
    c->last = p->steps > 0 ? p->steps : 1;
    c->advance = advance_large;
    if (!is_in_place(c) || c->n == 1)
        return RG_OK;
    p->to_copy = send_end(c);
    p->copy = malloc((size_t)p->to_copy + 1);
    return p->copy != NULL
               ? RG_OK
               : rg__fail(RG_ERR_MEMORY,
                          "no memory for an alltoall in place: it needs %llu "
                          "bytes more; use two buffers",
                          (unsigned long long)p->to_copy);
}

rg_status rg__pairs_choose(comm *c)
{
    const rg_status st =
        rg__pairs_is_uneven(c->coll.kind) ? read_counts(c) : RG_OK;
    if (st != RG_OK)
        return st;
    const uint64_t longest =
        rg__pairs_is_uneven(c->coll.kind) ? longest_stream(c, false) : c->bytes;
    if (longest > SMALL_BYTES)
        return begin_large(c);
    c->advance = read_small;
    return RG_OK;
}

void rg__pairs_end(comm *c)
{
    struct pairs *p = c->pairs;
    free(p->copy);
    p->copy = NULL;
    p->copied = p->to_copy = 0;
}

void rg__pairs_free(comm *c)
{
    if (c->pairs == NULL)
        return;
    rg__pairs_end(c);
    free(c->pairs->said);
    free(c->pairs);
    c->pairs = NULL;
}
