/* The part of a step that goes between hosts. Rail k of every host is in one
 * ring with rail k of all others: each receives from the host before it and
 * sends to the host after it.
 *
 *   allreduce   each host adds to a segment of the slice as it passes, and then
 *               the sums go round. A segment is added up along one way only, so
 *               bits are equal. Two hosts send each other the whole slice,
 *               which is as much in one turn less, and add in host order
 *   broadcast   the slice goes down the chain of hosts from the root's on
 *   reduce      each host adds to the slice, on its way along the chain that
 *               ends with the root's
 *   allgather   the slices of a host's members go round
 *
 * Several steps are under way at a time. A part is sent once the one that it
 * depends on has come; a frame that comes before its step is ready here waits
 * in the socket. That can't deadlock: what makes a step ready depends only on
 * earlier steps, and frames of earlier steps were sent before. */
#include "sdk/transport/inter/inter.h"

#include "sdk/base/copy.h"
#include "sdk/transport/reduce.h"

/* -------------------------------------------------------------------- parts */

typedef struct piece {
    char *at;
    size_t bytes;
    bool is_added; /* it is added to what is there */
} piece;

static piece my_slice(const rg__native *c, uint32_t step)
{
    size_t begin, end;
    rg__step_slice(c, step, c->rank, &begin, &end);
    return (piece){rg__step_data(c, c->rank, step) + begin, end - begin,
                   rg__kind_adds(c->coll.kind)};
}

static piece allreduce_piece(const rg__native *c, uint32_t step, uint32_t i,
                             bool is_incoming)
{
    const rg__topology *s = &c->inter->topology;
    const int adds = s->hosts - 1, turn = (int)i;
    const int shift = turn < adds ? -turn : adds + 1 - turn;
    const int segment =
        rg__topology_after(s, s->host, is_incoming ? shift - 1 : shift);
    const piece whole = my_slice(c, step);
    size_t from, to;
    if (s->hosts == 2)
        return whole;
    rg__vault_slice(whole.bytes, (uint32_t)segment, (uint32_t)s->hosts, &from,
                    &to);
    return (piece){whole.at + from, to - from, turn < adds};
}

static piece allgather_piece(const rg__native *c, uint32_t step, uint32_t i,
                             bool is_incoming)
{
    const rg__topology *s = &c->inter->topology;
    const int host =
        rg__topology_after(s, s->host, -(int)i - (is_incoming ? 1 : 0));
    size_t begin, end;
    rg__step_slice(c, step, c->rank, &begin, &end);
    return (piece){rg__step_slices(c, c->rank, step, host),
                   (end - begin) * (size_t)rg__topology_size(s, host), false};
}

static piece piece_of(const rg__native *c, uint32_t step, uint32_t i,
                      bool is_incoming)
{
    if (c->coll.kind == RG__ALLREDUCE)
        return allreduce_piece(c, step, i, is_incoming);
    if (c->coll.kind != RG__ALLGATHER)
        return my_slice(c, step);
    return allgather_piece(c, step, i, is_incoming);
}

/* ------------------------------------------------------------------ sending */

/* Begin the frame of the earliest step that has one to send. */
static bool begin_frame(rg__native *c)
{
    rg__pipeline *x = &c->inter->pipeline;
    for (uint32_t step = x->crossed + 1; step <= x->ready; step++) {
        const rg__step_parts *p = &x->part[step % STAGES];
        if (p->sent == x->parts || p->sent + x->lag > p->received)
            continue;
        x->sending_step = step;
        const piece out = piece_of(c, step, p->sent, false);
        rg__link_begin(x->next, (rg__frame){.kind = FRAME_DATA,
                                            .index = (uint16_t)p->sent,
                                            .op = c->inter->ops,
                                            .step = step,
                                            .bytes = (uint32_t)out.bytes});
        return true;
    }
    return false;
}

static bool send_some(rg__native *c)
{
    rg__pipeline *x = &c->inter->pipeline;
    if (!x->sends || (!x->next->is_sending && !begin_frame(c)))
        return false;
    rg__step_parts *p = &x->part[x->sending_step % STAGES];
    const piece out = piece_of(c, x->sending_step, p->sent, false);
    const size_t sent = rg__link_flush(x->next, out.at);
    if (sent == 0)
        return false;
    x->moved += sent;
    p->sent += !x->next->is_sending;
    return true;
}

/* ---------------------------------------------------------------- receiving */

/* What is wrong with a frame; NULL: nothing, or its step is not ready. */
static const char *fault_of(const rg__native *c, const rg__frame *head)
{
    const rg__pipeline *x = &c->inter->pipeline;
    if (head->kind != FRAME_DATA || head->op != c->inter->ops)
        return "another operation's";
    if (head->step <= x->crossed || head->step > c->last)
        return "of a step that is not under way";
    if (head->step > x->ready)
        return NULL;
    const rg__step_parts *p = &x->part[head->step % STAGES];
    if (p->received == x->parts || head->index != p->received)
        return "another part of the step";
    if (head->bytes != piece_of(c, head->step, p->received, true).bytes)
        return "of another length";
    return NULL;
}

/* Two hosts add to what they send in an allreduce, once it has gone. */
static bool may_take(const rg__native *c, uint32_t step)
{
    const rg__step_parts *p = &c->inter->pipeline.part[step % STAGES];
    return c->coll.kind != RG__ALLREDUCE || c->inter->topology.hosts > 2 ||
           p->sent > p->received;
}

static void add(const rg__native *c, const piece *in)
{
    const rg__coll *o = &c->coll;
    const char *here = c->inter->pipeline.scratch;
    const size_t count = in->bytes / rg_type_size(o->type);
    if (c->inter->topology.host == 0)
        rg__reduce(o->type, o->op, in->at, in->at, here, count);
    else
        rg__reduce(o->type, o->op, in->at, here, in->at, count);
}

/* The sum over all hosts is complete. It becomes the result here, and nowhere
 * else: what goes round from here on is finished. */
static void finish(const rg__native *c, const piece *sum)
{
    const rg__coll *o = &c->coll;
    rg__finish(o, sum->at, sum->bytes / rg_type_size(o->type), c->set_n);
}

/* Has the part that came last completed a sum? */
static bool is_complete(const rg__native *c, const rg__step_parts *p)
{
    return c->coll.kind == RG__REDUCE
               ? c->root >= 0
               : (int)p->received == c->inter->topology.hosts - 1;
}

static void take_part(rg__native *c, uint32_t step, const piece *in)
{
    rg__pipeline *x = &c->inter->pipeline;
    rg__step_parts *p = &x->part[step % STAGES];
    if (in->is_added)
        add(c, in);
    x->arrived = 0;
    x->awaited--;
    x->is_whole = false;
    p->received++;
    if (in->is_added && is_complete(c, p))
        finish(c, in);
}

static bool read_part(rg__native *c, const rg__frame *head)
{
    rg__pipeline *x = &c->inter->pipeline;
    const uint32_t step = head->step;
    const piece in = piece_of(c, step, x->part[step % STAGES].received, true);
    char *to = (in.is_added ? x->scratch : in.at) + x->arrived;
    if (in.bytes == 0)
        rg__link_take(x->prev);
    const size_t got = rg__link_read(x->prev, to, in.bytes - x->arrived);
    x->arrived += got;
    x->moved += got;
    x->is_whole = x->arrived == in.bytes;
    x->whole_step = step;
    return got > 0 || in.bytes == 0;
}

static bool take_whole(rg__native *c)
{
    rg__pipeline *x = &c->inter->pipeline;
    const uint32_t step = x->whole_step;
    const piece in = piece_of(c, step, x->part[step % STAGES].received, true);
    if (!may_take(c, step))
        return false;
    take_part(c, step, &in);
    return true;
}

static bool receive_some(rg__native *c)
{
    rg__pipeline *x = &c->inter->pipeline;
    if (x->is_whole)
        return take_whole(c);
    const rg__frame *head =
        x->awaited > 0 ? rg__exchange_head(c, x->prev) : NULL;
    if (head == NULL)
        return false;
    const char *fault = fault_of(c, head);
    if (fault != NULL) {
        rg__link_break(x->prev, "it sent a frame that is %s", fault);
        return false;
    }
    if (head->step > x->ready || !read_part(c, head))
        return false;
    if (x->is_whole)
        take_whole(c);
    return true;
}

/* ------------------------------------------------------------------- a turn */

static bool has_crossed(const rg__pipeline *x, uint32_t step)
{
    const rg__step_parts *p = &x->part[step % STAGES];
    return step <= x->ready && (!x->sends || p->sent == x->parts) &&
           (!x->receives || p->received == x->parts);
}

/* Staged sums are made in user memory, but others here read them in my slot. */
static void show(const rg__native *c, uint32_t step)
{
    size_t begin, end;
    if (c->coll.kind != RG__ALLREDUCE || c->inter->pipeline.is_zero_copy)
        return;
    rg__step_slice(c, step, c->rank, &begin, &end);
    rg__copy(rg__shm_slot(c, c->rank, step) + begin,
             rg__step_data(c, c->rank, step) + begin, end - begin);
}

void rg__ring_turn(rg__native *c)
{
    rg__pipeline *x = &c->inter->pipeline;
    if (x->next == NULL || !rg__exchange_lets_begin(c, &x->may_begin))
        return;
    bool has_moved = true;
    for (x->moved = 0; has_moved && x->moved < RG__WORK_BYTES;) {
        has_moved = send_some(c);
        has_moved |= receive_some(c);
        c->base.moves += has_moved;
    }
    while (has_crossed(x, x->crossed + 1)) {
        x->crossed++;
        show(c, x->crossed);
        c->base.moves++;
        rg__shm_post(c, FLAG_OUT, x->crossed);
    }
}

/* A broadcast begins at the root's host, and a reduce ends there. */
static void begin_chain(rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    rg__pipeline *x = &c->inter->pipeline;
    const int root = s->host_of[c->coll.root];
    const int first =
        c->coll.kind == RG__BROADCAST ? root : rg__topology_after(s, root, 1);
    x->parts = 1;
    x->receives = s->host != first;
    x->sends = rg__topology_after(s, s->host, 1) != first;
    x->lag = x->receives ? 1 : 0;
}

void rg__ring_begin(rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    rg__pipeline *x = &c->inter->pipeline;
    const uint32_t round = (uint32_t)s->hosts - 1;
    x->ready = x->crossed = 0;
    x->arrived = 0;
    x->may_begin = x->is_whole = false;
    x->receives = x->sends = true;
    x->lag = 0;
    x->parts = c->coll.kind == RG__ALLREDUCE && round > 1 ? 2 * round : round;
    if (c->coll.kind == RG__BROADCAST || c->coll.kind == RG__REDUCE)
        begin_chain(c);
    x->awaited = x->receives ? (uint64_t)x->parts * c->last : 0;
}
