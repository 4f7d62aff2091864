/* Large operations over several hosts, in steps, of which several are under way
 * at a time. In each step data pass through the staging slots as they do on one
 * host (staged.c), with one part more, in which they cross:
 *
 *   copy in   when nobody needs what the slot holds     (who has data to give)
 *   ready     when all of the host that give have copied in: lane k makes slice
 *             k of its host
 *   cross     lane k of every host, among themselves, in parts; steps overlap
 *   copy out  when all lanes of the host have crossed
 *
 *   allreduce   the host's sum of the slice goes round a ring: each host adds
 *               to a segment as it passes, and then the sums go round. A
 *               segment is added up along one way only, so bits are equal.
 *   broadcast   the slice goes down the chain of hosts from the root's on
 *   allgather   the slices of a host's members go round the ring
 *
 * A part is sent once the one that it depends on has come; a frame that comes
 * before its step is ready here waits in the socket. That can't go round in a
 * circle: what makes a step ready depends on earlier steps only, and frames of
 * earlier steps were sent before. */
#include "sdk/transport/native/across.h"

#include <string.h>

#include "sdk/transport/native/reduce.h"

#define BLOCK_BYTES   ((size_t)16 << 10)
#define TURNS_AT_ONCE 8 /* sends and receives per call */

/* ------------------------------------------------------------ steps, slices */

static uint64_t begin_of(const comm *c, uint32_t step)
{
    return (uint64_t)(step - 1) * c->across->crossing.step_bytes;
}

static size_t bytes_of(const comm *c, uint32_t step)
{
    const uint64_t left = c->bytes - begin_of(c, step);
    const size_t most = c->across->crossing.step_bytes;
    return left < most ? (size_t)left : most;
}

static char *slot_of(const comm *c, int m, uint32_t step)
{
    return c->member[m].staging +
           (size_t)((c->steps + step) % STAGES) * STAGE_BYTES;
}

static bool is_lane(const comm *c)
{
    return c->across->crossing.next != NULL;
}

static void slice_of(const comm *c, uint32_t step, int lane, size_t *begin_p,
                     size_t *end_p)
{
    rg__vault_slice(bytes_of(c, step), (uint32_t)lane,
                    (uint32_t)c->across->spread.lanes, begin_p, end_p);
}

static bool lanes_posted(const comm *c, flag which, uint32_t step)
{
    for (int k = 0; k < c->across->spread.lanes; k++)
        if (!rg__native_posted(c, k, which, step))
            return false;
    return true;
}

static bool is_slot_free(const comm *c, uint32_t step)
{
    return rg__native_all_posted(c, FLAG_DONE, step - STAGES);
}

static bool may_copy_in(const comm *c)
{
    return c->in < c->last && is_slot_free(c, c->in + 1);
}

static void finish_in(comm *c)
{
    c->in++;
    c->base.moves++;
    rg__native_post(c, FLAG_IN, c->in);
}

static rg_status finish_done(comm *c)
{
    c->done++;
    c->peer = 0;
    c->base.moves++;
    if (c->done < c->last) {
        rg__native_post(c, FLAG_DONE, c->done);
        return RG_IN_PROGRESS;
    }
    rg__native_post_end(c);
    return RG_OK;
}

static void finish_ready(comm *c)
{
    crossing *x = &c->across->crossing;
    x->ready++;
    x->part[x->ready % STAGES] = (part){0};
    c->base.moves++;
}

/* -------------------------------------------------------------------- parts */

typedef struct piece {
    char *at;
    size_t bytes;
    bool is_added; /* to what is there */
} piece;

static piece allreduce_piece(const comm *c, uint32_t step, uint32_t i,
                             bool is_incoming)
{
    const spread *s = &c->across->spread;
    const int adds = s->hosts - 1, turn = (int)i;
    const bool is_added = turn < adds;
    const int shift = is_added ? -turn : adds + 1 - turn;
    const int segment =
        rg__spread_after(s, s->host, is_incoming ? shift - 1 : shift);
    size_t begin, end, from, to;
    slice_of(c, step, c->rank, &begin, &end);
    rg__vault_slice(end - begin, (uint32_t)segment, (uint32_t)s->hosts, &from,
                    &to);
    return (piece){slot_of(c, c->rank, step) + begin + from, to - from,
                   is_added};
}

static piece broadcast_piece(const comm *c, uint32_t step)
{
    size_t begin, end;
    slice_of(c, step, c->rank, &begin, &end);
    const int from = c->root >= 0 ? c->root : c->rank;
    return (piece){slot_of(c, from, step) + begin, end - begin, false};
}

/* A lane's slot has its own data first, then the slices of all members, host by
 * host. */
static char *slices_of(const comm *c, int lane, uint32_t step, int host)
{
    const across *x = c->across;
    const size_t lines = x->crossing.step_bytes / RG__LINE;
    const size_t lanes = (size_t)x->spread.lanes;
    const size_t most = (lines + lanes - 1) / lanes * RG__LINE;
    return slot_of(c, lane, step) + x->crossing.step_bytes +
           (size_t)x->spread.begin[host] * most;
}

static piece allgather_piece(const comm *c, uint32_t step, uint32_t i,
                             bool is_incoming)
{
    const spread *s = &c->across->spread;
    const int host =
        rg__spread_after(s, s->host, -(int)i - (is_incoming ? 1 : 0));
    size_t begin, end;
    slice_of(c, step, c->rank, &begin, &end);
    return (piece){slices_of(c, c->rank, step, host),
                   (end - begin) * (size_t)rg__spread_size(s, host), false};
}

static piece piece_of(const comm *c, uint32_t step, uint32_t i,
                      bool is_incoming)
{
    if (c->coll.kind == RG__ALLREDUCE)
        return allreduce_piece(c, step, i, is_incoming);
    if (c->coll.kind == RG__BROADCAST)
        return broadcast_piece(c, step);
    return allgather_piece(c, step, i, is_incoming);
}

/* ------------------------------------------------------------------ crossing
 */

/* Begin the frame of the earliest step that has one to send. */
static bool begin_frame(comm *c)
{
    crossing *x = &c->across->crossing;
    for (uint32_t step = x->crossed + 1; step <= x->ready; step++) {
        const part *p = &x->part[step % STAGES];
        if (p->sent == x->parts || p->sent + x->lag > p->received)
            continue;
        x->sending_step = step;
        const piece out = piece_of(c, step, p->sent, false);
        rg__link_begin(x->next, (frame){.kind = FRAME_DATA,
                                        .index = (uint16_t)p->sent,
                                        .op = c->ops,
                                        .step = step,
                                        .bytes = (uint32_t)out.bytes});
        return true;
    }
    return false;
}

static bool send_some(comm *c)
{
    crossing *x = &c->across->crossing;
    if (!x->sends || (!x->next->is_sending && !begin_frame(c)))
        return false;
    part *p = &x->part[x->sending_step % STAGES];
    const piece out = piece_of(c, x->sending_step, p->sent, false);
    if (rg__link_flush(x->next, out.at) == 0)
        return false;
    p->sent += !x->next->is_sending;
    return true;
}

/* What is wrong with a frame that is not ahead of us; NULL: nothing. */
static const char *fault_of(const comm *c, const frame *head)
{
    const crossing *x = &c->across->crossing;
    if (head->kind != FRAME_DATA || head->op != c->ops)
        return "another operation's";
    if (head->step <= x->crossed || head->step > c->last)
        return "of a step that is none of those under way";
    const part *p = &x->part[head->step % STAGES];
    if (head->step > x->ready)
        return NULL;
    if (p->received == x->parts || head->index != p->received)
        return "another part of the step";
    if (head->bytes != piece_of(c, head->step, p->received, true).bytes)
        return "of another length";
    return NULL;
}

static void take_part(comm *c, uint32_t step, const piece *in)
{
    crossing *x = &c->across->crossing;
    const rg__coll *o = &c->coll;
    if (in->is_added)
        rg__reduce(o->type, o->op, in->at, x->scratch, in->at,
                   in->bytes / rg_type_size(o->type));
    x->arrived = 0;
    x->awaited--;
    x->part[step % STAGES].received++;
}

static bool receive_some(comm *c)
{
    crossing *x = &c->across->crossing;
    const frame *head = x->awaited > 0 ? rg__across_head(c, x->prev) : NULL;
    if (head == NULL)
        return false;
    const char *fault = fault_of(c, head);
    if (fault != NULL) {
        rg__link_break(x->prev, "it sent a frame that is %s", fault);
        return false;
    }
    const uint32_t step = head->step;
    if (step > x->ready)
        return false;
    const piece in = piece_of(c, step, x->part[step % STAGES].received, true);
    char *to = (in.is_added ? x->scratch : in.at) + x->arrived;
    if (in.bytes == 0)
        rg__link_take(x->prev);
    const size_t got = rg__link_read(x->prev, to, in.bytes - x->arrived);
    x->arrived += got;
    if (x->arrived == in.bytes)
        take_part(c, step, &in);
    return got > 0 || in.bytes == 0;
}

static bool has_crossed(const crossing *x, uint32_t step)
{
    const part *p = &x->part[step % STAGES];
    return step <= x->ready && (!x->sends || p->sent == x->parts) &&
           (!x->receives || p->received == x->parts);
}

/* The sum is there; now it is the mean. */
static void divide(comm *c, uint32_t step)
{
    const rg__coll *o = &c->coll;
    size_t begin, end;
    if (o->kind != RG__ALLREDUCE || o->op != RG_AVG)
        return;
    slice_of(c, step, c->rank, &begin, &end);
    rg__divide(o->type, slot_of(c, c->rank, step) + begin,
               (end - begin) / rg_type_size(o->type), c->set_n);
}

static bool may_begin(comm *c)
{
    crossing *x = &c->across->crossing;
    if (!x->may_begin)
        x->may_begin = rg__exchange_is_free(c);
    return x->may_begin;
}

static void cross(comm *c)
{
    crossing *x = &c->across->crossing;
    if (!is_lane(c) || !may_begin(c))
        return;
    for (int i = 0; i < TURNS_AT_ONCE; i++) {
        const bool has_sent = send_some(c), has_received = receive_some(c);
        if (!has_sent && !has_received)
            break;
        c->base.moves++;
    }
    while (has_crossed(x, x->crossed + 1)) {
        x->crossed++;
        divide(c, x->crossed);
        c->base.moves++;
        rg__native_post(c, FLAG_OUT, x->crossed);
    }
}

/* --------------------------------------------------------------- allreduce */

/* My slot holds my data but for my own slice, where the sum goes; my own
 * contribution to that is read from the user's memory. */
static const char *contribution(const comm *c, int m, uint32_t step, size_t at)
{
    return m == c->rank ? (const char *)c->coll.send + begin_of(c, step) + at
                        : slot_of(c, m, step) + at;
}

static void reduce_block(const comm *c, uint32_t step, size_t at, size_t bytes)
{
    const rg__coll *o = &c->coll;
    const size_t count = bytes / rg_type_size(o->type);
    char *sum = slot_of(c, c->rank, step) + at;
    if (c->n == 1)
        memcpy(sum, contribution(c, 0, step, at), bytes);
    else
        rg__reduce(o->type, o->op, sum, contribution(c, 0, step, at),
                   contribution(c, 1, step, at), count);
    for (int m = 2; m < c->n; m++)
        rg__reduce(o->type, o->op, sum, sum, contribution(c, m, step, at),
                   count);
}

static void reduce_slice(comm *c)
{
    const uint32_t step = c->across->crossing.ready + 1;
    size_t begin, end;
    slice_of(c, step, c->rank, &begin, &end);
    for (size_t at = begin; at < end; at += BLOCK_BYTES)
        reduce_block(c, step, at,
                     end - at < BLOCK_BYTES ? end - at : BLOCK_BYTES);
    finish_ready(c);
}

static void copy_others_in(comm *c)
{
    const uint32_t step = c->in + 1;
    const size_t bytes = bytes_of(c, step);
    const char *data = (const char *)c->coll.send + begin_of(c, step);
    char *slot = slot_of(c, c->rank, step);
    size_t begin = 0, end = 0;
    if (is_lane(c))
        slice_of(c, step, c->rank, &begin, &end);
    memcpy(slot, data, begin);
    memcpy(slot + end, data + end, bytes - end);
    finish_in(c);
}

static void copy_slices_out(comm *c)
{
    const uint32_t step = c->done + 1;
    char *data = (char *)c->coll.recv + begin_of(c, step);
    for (int k = 0; k < c->across->spread.lanes; k++) {
        size_t begin, end;
        slice_of(c, step, k, &begin, &end);
        memcpy(data + begin, slot_of(c, k, step) + begin, end - begin);
    }
}

rg_status rg__crossing_allreduce(comm *c)
{
    cross(c);
    const uint32_t ready = c->across->crossing.ready + 1;
    if (c->done < c->in && lanes_posted(c, FLAG_OUT, c->done + 1)) {
        copy_slices_out(c);
        return finish_done(c);
    }
    if (is_lane(c) && ready <= c->in &&
        rg__native_all_posted(c, FLAG_IN, ready))
        reduce_slice(c);
    else if (may_copy_in(c))
        copy_others_in(c);
    return RG_IN_PROGRESS;
}

/* --------------------------------------------------------------- broadcast */

static void copy_all_in(comm *c, const void *data)
{
    const uint32_t step = c->in + 1;
    memcpy(slot_of(c, c->rank, step), (const char *)data + begin_of(c, step),
           bytes_of(c, step));
    finish_in(c);
}

static bool may_send_on(const comm *c)
{
    const uint32_t step = c->across->crossing.ready + 1;
    if (!is_lane(c) || step > c->last)
        return false;
    return c->root >= 0 ? rg__native_posted(c, c->root, FLAG_IN, step)
                        : is_slot_free(c, step);
}

/* On the root's host data are read from its slot; a lane needs them until they
 * have crossed. */
static rg_status copy_from_root(comm *c)
{
    const uint32_t step = c->done + 1;
    if (!rg__native_posted(c, c->root, FLAG_IN, step) ||
        (is_lane(c) && c->across->crossing.crossed < step))
        return RG_IN_PROGRESS;
    if (c->root != c->rank)
        memcpy((char *)c->coll.recv + begin_of(c, step),
               slot_of(c, c->root, step), bytes_of(c, step));
    return finish_done(c);
}

rg_status rg__crossing_broadcast(comm *c)
{
    cross(c);
    if (may_send_on(c))
        finish_ready(c);
    if (c->root == c->rank && may_copy_in(c))
        copy_all_in(c, c->coll.recv);
    if (c->root >= 0)
        return copy_from_root(c);
    if (!lanes_posted(c, FLAG_OUT, c->done + 1))
        return RG_IN_PROGRESS;
    copy_slices_out(c);
    return finish_done(c);
}

/* --------------------------------------------------------------- allgather */

/* My lane's slices of this host's members, as they cross. */
static void pack(comm *c)
{
    const uint32_t step = c->across->crossing.ready + 1;
    char *to = slices_of(c, c->rank, step, c->across->spread.host);
    size_t begin, end;
    slice_of(c, step, c->rank, &begin, &end);
    for (int m = 0; m < c->n; m++, to += end - begin)
        memcpy(to, slot_of(c, m, step) + begin, end - begin);
    finish_ready(c);
}

static void copy_slices_of(const comm *c, uint32_t step, int host, int i,
                           char *to)
{
    for (int k = 0; k < c->across->spread.lanes; k++) {
        size_t begin, end;
        slice_of(c, step, k, &begin, &end);
        memcpy(to + begin,
               slices_of(c, k, step, host) + (size_t)i * (end - begin),
               end - begin);
    }
}

/* One host's members' data of a step; true when the step is complete. */
static bool gather_host(comm *c)
{
    const spread *s = &c->across->spread;
    const uint32_t step = c->done + 1;
    const int host = c->peer;
    for (int i = 0; i < rg__spread_size(s, host); i++) {
        const int m = rg__spread_member(s, host, i);
        char *to = (char *)c->coll.recv + (uint64_t)m * c->bytes;
        const bool is_there = m == c->set_rank && c->coll.send == to;
        if (host != s->host)
            copy_slices_of(c, step, host, i, to + begin_of(c, step));
        else if (!is_there)
            memcpy(to + begin_of(c, step), slot_of(c, i, step),
                   bytes_of(c, step));
    }
    c->base.moves++;
    return ++c->peer == s->hosts;
}

rg_status rg__crossing_allgather(comm *c)
{
    cross(c);
    const uint32_t ready = c->across->crossing.ready + 1;
    if (c->done < c->in && lanes_posted(c, FLAG_OUT, c->done + 1))
        return gather_host(c) ? finish_done(c) : RG_IN_PROGRESS;
    if (is_lane(c) && ready <= c->in &&
        rg__native_all_posted(c, FLAG_IN, ready))
        pack(c);
    else if (may_copy_in(c))
        copy_all_in(c, c->coll.send);
    return RG_IN_PROGRESS;
}

/* ------------------------------------------------------------------- begin */

/* So many lines that a slot has room for its own and for a slice of all. */
static size_t gather_step(const spread *s)
{
    const size_t lines = STAGE_BYTES / RG__LINE, n = (size_t)s->n;
    const size_t lanes = (size_t)s->lanes;
    const size_t most = (lines - n) * lanes / (lanes + n);
    return (most > 0 ? most : 1) * RG__LINE;
}

static void begin_broadcast(comm *c)
{
    const spread *s = &c->across->spread;
    crossing *x = &c->across->crossing;
    const int root = s->host_of[c->coll.root];
    x->parts = 1;
    x->receives = s->host != root;
    x->sends = rg__spread_after(s, s->host, 1) != root;
    x->lag = x->receives ? 1 : 0;
    c->advance = rg__crossing_broadcast;
}

static void begin_ring(comm *c)
{
    crossing *x = &c->across->crossing;
    const uint32_t round = (uint32_t)c->across->spread.hosts - 1;
    x->parts = c->coll.kind == RG__ALLREDUCE ? 2 * round : round;
    x->receives = x->sends = true;
    x->lag = 0;
    c->advance = c->coll.kind == RG__ALLREDUCE ? rg__crossing_allreduce
                                               : rg__crossing_allgather;
}

void rg__crossing_begin(comm *c)
{
    crossing *x = &c->across->crossing;
    x->step_bytes = c->coll.kind == RG__ALLGATHER
                        ? gather_step(&c->across->spread)
                        : STAGE_BYTES;
    c->last = (uint32_t)((c->bytes + x->step_bytes - 1) / x->step_bytes);
    x->ready = x->crossed = 0;
    x->may_begin = false;
    x->arrived = 0;
    if (c->coll.kind == RG__BROADCAST)
        begin_broadcast(c);
    else
        begin_ring(c);
    x->awaited = x->receives ? (uint64_t)x->parts * c->last : 0;
}
