/* Operations over several hosts that are made of allreduces, broadcasts and
 * allgathers, one after the other, each of CHUNK_BYTES at most:
 *
 *   reduce            allreduces, whose result only the root keeps
 *   reduce_scatter    likewise, part by part; small ones at once
 *   uneven counts     first an allgather of the counts, which are compared
 *   pairs, small      an allgather of all streams, of which each takes its part
 *   pairs, large      a broadcast from each to each; an allgather's, to all; in
 *                     an alltoall, chunk by chunk there and back, so that in
 *                     place a chunk of memory is enough
 *
 * The descriptors of each part say what the user has started, and which part it
 * is: a difference is found with the first part, before a byte is written. */
#include "sdk/transport/inter/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/transport/shm/pairwise.h"

#define CHUNK_BYTES ((uint64_t)8 << 20)
#define ALL_BYTES   ((uint64_t)64 << 10)

typedef enum phase {
    COUNTS, /* of all members are gathered */
    AT_ONCE,
    PARTS,
    OWN, /* what a member sends to itself is copied */
    OVER
} phase;

struct rg__schedule {
    bool is_running;
    phase phase;
    uint64_t part;    /* parts made so far */
    rg__coll coll;    /* the last of them */
    bool is_taken;    /* it is in flight, or was */
    int from, to;     /* of the present one */
    bool is_back;     /* of an alltoall: from `to` to `from` */
    uint64_t at;      /* elements of it that are done */
    uint64_t now;     /* that are under way */
    uint64_t longest; /* stream, in bytes */
    uint64_t *counts; /* of all members, then mine; owned, as what follows */
    char *scratch;
    uint64_t room;
};

bool rg__schedule_has(rg__kind kind)
{
    return kind == RG__REDUCE || kind == RG__REDUCE_SCATTER ||
           kind == RG__REDUCE_SCATTERV || rg__pairwise_has(kind);
}

static size_t element(const rg__native *c)
{
    return rg_type_size(c->user.type);
}

static rg_status make_room(rg__native *c, uint64_t bytes)
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

/* What is to be done next. */
static rg_status begin_part(rg__native *c, const rg__coll *part)
{
    c->schedule->part++;
    c->schedule->coll = *part;
    c->schedule->is_taken = false;
    return RG_IN_PROGRESS;
}

uint64_t rg__schedule_take(rg__native *c, rg__coll *part)
{
    struct rg__schedule *x = c->schedule;
    if (x == NULL || x->is_taken)
        return 0;
    x->is_taken = true;
    *part = x->coll;
    return x->part;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
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
    if (!rg__pairwise_is_uneven(c->user.kind))
        return rg__pairwise_count(&c->user, c->set_rank, from, to);
    return c->schedule->counts[(size_t)from * (size_t)parts_of(c) + (size_t)to];
}

static bool is_one_for_all(const rg__native *c)
{
    return c->user.kind == RG__ALLGATHERV;
}

/* Where the part for `to` begins in the stream, in elements; to == from: the
 * stream's length. */
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
        const uint64_t bytes = stream_at(c, m, m) * element(c);
        if (bytes > c->schedule->longest)
            c->schedule->longest = bytes;
    }
}

/* --------------------------------------------------------- reduce (scatter) */

static bool is_reduction(const rg__native *c)
{
    return !rg__pairwise_has(c->user.kind);
}

static uint64_t part_count(const rg__native *c, int r)
{
    const rg__coll *o = &c->user;
    return o->kind == RG__REDUCE_SCATTERV ? o->recv_counts[r] : o->count;
}

static uint64_t part_begin(const rg__native *c, int r)
{
    uint64_t at = 0;
    for (int i = 0; i < r && c->user.kind != RG__REDUCE; i++)
        at += part_count(c, i);
    return at;
}

static uint64_t all_count(const rg__native *c)
{
    return c->user.kind == RG__REDUCE_SCATTER
               ? c->user.count * (uint64_t)c->set_n
               : c->user.count;
}

static rg__coll reduction(const rg__native *c, uint64_t at, uint64_t count,
                          void *recv)
{
    return (rg__coll){.kind = RG__ALLREDUCE,
                      .type = c->user.type,
                      .op = c->user.op,
                      .count = count,
                      .send = (const char *)c->user.send + at * element(c),
                      .recv = recv,
                      .prescale = c->user.prescale,
                      .postscale = c->user.postscale};
}

static rg_status reduce_at_once(rg__native *c)
{
    const rg_status st = make_room(c, all_count(c) * element(c) + 1);
    if (st != RG_OK)
        return st;
    const rg__coll part = reduction(c, 0, all_count(c), c->schedule->scratch);
    return begin_part(c, &part);
}

static void keep_my_part(const rg__native *c)
{
    const uint64_t bytes = part_count(c, c->set_rank) * element(c);
    if (bytes > 0)
        rg__copy(c->user.recv,
                 c->schedule->scratch + part_begin(c, c->set_rank) * element(c),
                 (size_t)bytes);
}

/* The next chunk of member x->to's part, the root's being all. */
static rg_status reduce_part(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const int last = c->user.kind == RG__REDUCE ? 1 : c->set_n;
    for (; x->to < last; x->to++, x->at = 0) {
        const uint64_t left = part_count(c, x->to) - x->at;
        const int owner = c->user.kind == RG__REDUCE ? c->user.root : x->to;
        if (left == 0)
            continue;
        x->now = at_most(left, CHUNK_BYTES / element(c));
        const rg_status st = make_room(c, x->now * element(c));
        if (st != RG_OK)
            return st;
        char *recv = owner == c->set_rank
                         ? (char *)c->user.recv + x->at * element(c)
                         : x->scratch;
        const rg__coll part =
            reduction(c, part_begin(c, x->to) + x->at, x->now, recv);
        x->at += x->now;
        return begin_part(c, &part);
    }
    return RG_OK;
}

/* ------------------------------------------------------------------- pairs */

static const char *my_part(const rg__native *c, int to)
{
    return (const char *)c->user.send +
           rg__pairwise_send_at(&c->user, c->set_rank, to) * element(c);
}

static char *place_of(const rg__native *c, int from)
{
    return (char *)c->user.recv +
           rg__pairwise_recv_at(&c->user, c->set_rank, from) * element(c);
}

/* Streams are padded to the longest. */
static rg_status exchange_at_once(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const int n = c->set_n;
    const rg_status st = make_room(c, x->longest * (uint64_t)(n + 1) + 1);
    if (st != RG_OK)
        return st;
    char *mine = x->scratch + x->longest * (uint64_t)n;
    memset(mine, 0, (size_t)x->longest);
    for (int i = 1; i < n; i++) {
        const int to = (c->set_rank + i) % n;
        const uint64_t bytes = count_of(c, c->set_rank, to) * element(c);
        if (bytes > 0)
            rg__copy(mine + stream_at(c, c->set_rank, to) * element(c),
                     my_part(c, to), (size_t)bytes);
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
        const uint64_t bytes = count_of(c, m, c->set_rank) * element(c);
        if (m != c->set_rank && bytes > 0)
            rg__copy(place_of(c, m),
                     x->scratch + (uint64_t)m * x->longest +
                         stream_at(c, m, c->set_rank) * element(c),
                     (size_t)bytes);
    }
}

/* A member that a part does not concern passes it on from scratch memory. */
static char *data_of_part(const rg__native *c)
{
    const struct rg__schedule *x = c->schedule;
    const uint64_t at = x->at * element(c);
    if (x->from == c->set_rank)
        return (char *)(uintptr_t)my_part(c, x->to) + at;
    if (x->to == c->set_rank || is_one_for_all(c))
        return place_of(c, x->from) + at;
    return x->scratch;
}

/* The next chunk of what x->from sends to x->to. */
static rg_status send_part(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const int n = c->set_n;
    for (; x->from < n; x->from++, x->to = 0)
        for (; x->to < n; x->to++, x->at = 0) {
            const bool is_left_out = is_one_for_all(c)
                                         ? x->to != (x->from + 1) % n
                                         : x->to == x->from;
            const uint64_t left =
                is_left_out ? 0 : count_of(c, x->from, x->to) - x->at;
            if (left == 0)
                continue;
            x->now = at_most(left, CHUNK_BYTES / element(c));
            const rg_status st = make_room(c, x->now * element(c));
            if (st != RG_OK)
                return st;
            const rg__coll part = {.kind = RG__BROADCAST,
                                   .type = c->user.type,
                                   .root = x->from,
                                   .count = x->now,
                                   .recv = data_of_part(c)};
            x->at += x->now;
            return begin_part(c, &part);
        }
    return RG_OK;
}

static bool is_alltoall(const rg__native *c)
{
    return c->user.kind == RG__ALLTOALL || c->user.kind == RG__ALLTOALLV;
}

static bool is_in_place(const rg__native *c)
{
    return is_alltoall(c) && c->user.send == c->user.recv;
}

/* Elements of the present chunk from one member to another. */
static uint64_t chunk_of(const rg__native *c, int from, int to)
{
    const uint64_t count = count_of(c, from, to), at = c->schedule->at;
    return at < count ? at_most(count - at, CHUNK_BYTES / element(c)) : 0;
}

/* What I send back comes from scratch, since in place it is overwritten by what
 * I get. */
static rg_status set_aside(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const uint64_t back = chunk_of(c, x->to, x->from) * element(c);
    const rg_status st = make_room(c, back);
    if (st == RG_OK && back > 0)
        rg__copy(x->scratch, my_part(c, x->from) + x->at * element(c),
                 (size_t)back);
    return st;
}

static char *data_of_chunk(const rg__native *c, int from, int to)
{
    const struct rg__schedule *x = c->schedule;
    const uint64_t at = x->at * element(c);
    if (from == c->set_rank && x->is_back && is_in_place(c))
        return x->scratch;
    if (from == c->set_rank)
        return (char *)(uintptr_t)my_part(c, to) + at;
    return to == c->set_rank ? place_of(c, from) + at : x->scratch;
}

/* OK: the chunk is empty. */
static rg_status send_chunk(rg__native *c, int from, int to)
{
    struct rg__schedule *x = c->schedule;
    rg_status st = RG_OK;
    x->now = chunk_of(c, from, to);
    if (!x->is_back && to == c->set_rank && is_in_place(c))
        st = set_aside(c);
    else
        st = make_room(c, x->now * element(c));
    if (st != RG_OK || x->now == 0)
        return st;
    const rg__coll part = {.kind = RG__BROADCAST,
                           .type = c->user.type,
                           .root = from,
                           .count = x->now,
                           .recv = data_of_chunk(c, from, to)};
    return begin_part(c, &part);
}

/* The next chunk between two members, one way. */
static rg_status exchange_part(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const uint64_t most = CHUNK_BYTES / element(c);
    for (; x->from < c->set_n; x->from++, x->to = 0)
        for (; x->to < x->from; x->to++, x->at = 0) {
            rg_status st = RG_OK;
            while (st == RG_OK && (x->at < count_of(c, x->from, x->to) ||
                                   x->at < count_of(c, x->to, x->from))) {
                st = x->is_back ? send_chunk(c, x->to, x->from)
                                : send_chunk(c, x->from, x->to);
                x->at += x->is_back ? most : 0;
                x->is_back = !x->is_back;
            }
            if (st != RG_OK)
                return st;
        }
    return RG_OK;
}

/* A piece of what I send to myself; OK: it is all there. */
static rg_status copy_own(rg__native *c)
{
    struct rg__schedule *x = c->schedule;
    const uint64_t bytes = count_of(c, c->set_rank, c->set_rank) * element(c);
    const char *from = my_part(c, c->set_rank);
    char *to = place_of(c, c->set_rank);
    const uint64_t now = at_most(bytes - x->at, RG__WORK_BYTES);
    if (from == to || now == 0)
        return RG_OK;
    rg__copy(to + x->at, from + x->at, (size_t)now);
    x->at += now;
    c->base.moves++;
    return RG_IN_PROGRESS;
}

/* ----------------------------------------------------------------- in whole */

static void go_to(rg__native *c, phase next)
{
    struct rg__schedule *x = c->schedule;
    x->phase = next;
    x->at = 0;
    x->from = x->to = 0;
    x->is_back = false;
}

static bool is_at_once(const rg__native *c)
{
    const uint64_t n = (uint64_t)c->set_n;
    if (is_reduction(c))
        return c->user.kind != RG__REDUCE &&
               all_count(c) * element(c) <= ALL_BYTES;
    return c->schedule->longest <= ALL_BYTES / n;
}

/* Every member makes one operation at least, so that all are compared. */
static void choose(rg__native *c)
{
    if (rg__pairwise_has(c->user.kind))
        find_longest(c);
    const bool has_none = c->user.kind == RG__REDUCE && c->user.count == 0;
    go_to(c, has_none || is_at_once(c) ? AT_ONCE : PARTS);
}

/* My own counts as the others have received them. */
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
    if (rg__pairwise_is_uneven(c->user.kind))
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
    if (is_reduction(c))
        return reduce_part(c);
    return is_alltoall(c) ? exchange_part(c) : send_part(c);
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
}

void rg__schedule_free(rg__native *c)
{
    rg__schedule_end(c);
    if (c->schedule == NULL)
        return;
    free(c->schedule->counts);
    free(c->schedule->scratch);
    free(c->schedule);
    c->schedule = NULL;
}
