/* A round of pairs: each member exchanges data with some members of other
 * hosts, over a connection for each pair that is made when it is first needed.
 * Nothing passes a third host.
 *
 * Members meet in turns (pairwise.h), and WINDOW pairs of a member move at a
 * time. That can't deadlock: of all pairs that are not done, those of the
 * earliest turn are in the windows of both ends.
 *
 * A part travels in frames of FRAME_BYTES, which carry the round's number and
 * their own. A round ends here when all has been sent and received; a peer may
 * then be in the next one already, whose frames wait in the socket. */
#include "sdk/transport/inter/pairs.h"

#include <stdlib.h>

#include "sdk/base/fail.h"
#include "sdk/base/least.h"

#define WINDOW      4
#define FRAME_BYTES ((uint64_t)4 << 20)

struct rg__pairs {
    rg__pair *pair; /* owned */
    int count, room;
    int first;      /* pairs before it are done */
    uint32_t round; /* counted over the comm's life */
    bool is_running;
    bool may_begin; /* nothing old is left on the links */
    size_t moved;   /* bytes moved in this call */
};

static bool is_done(const rg__pair *p)
{
    return p->sent == p->out_bytes && p->received == p->in_bytes;
}

/* ------------------------------------------------------------------ sending */

/* Bytes handed to the kernel, including those of the frame under way. */
static uint64_t handed_over(const rg__pair *p)
{
    const rg__link *l = p->link;
    return l->is_sending && l->out_at > sizeof l->out
               ? p->sent + (l->out_at - sizeof l->out)
               : p->sent;
}

static void begin_frame(const rg__native *c, rg__pair *p)
{
    rg__link_begin(p->link,
                   (rg__frame){.kind = FRAME_DATA,
                               .index = (uint16_t)p->frames_out++,
                               .op = c->inter->ops,
                               .step = c->inter->pairs->round,
                               .bytes = (uint32_t)rg__least(
                                   p->out_bytes - p->sent, FRAME_BYTES)});
}

static bool send_some(rg__native *c, rg__pair *p)
{
    rg__link *l = p->link;
    if (p->sent == p->out_bytes)
        return false;
    if (!l->is_sending)
        begin_frame(c, p);
    const size_t moved = rg__link_flush(l, p->out + p->sent);
    if (!l->is_sending)
        p->sent += l->out.bytes;
    c->inter->pairs->moved += moved;
    return moved > 0;
}

/* ---------------------------------------------------------------- receiving */

/* What is wrong with a frame of unread body; NULL: nothing. */
static const char *fault_of(const rg__native *c, const rg__pair *p,
                            const rg__frame *head)
{
    if (head->kind != FRAME_DATA || head->op != c->inter->ops)
        return "another operation's";
    if (head->step != c->inter->pairs->round ||
        head->index != (uint16_t)p->frames_in)
        return "another part of the operation";
    if (head->bytes != rg__least(p->in_bytes - p->received, FRAME_BYTES))
        return "of another length";
    return NULL;
}

static bool receive_some(rg__native *c, rg__pair *p)
{
    rg__link *l = p->link;
    if (p->received == p->in_bytes)
        return false;
    const rg__frame *head = rg__exchange_head(c, l);
    if (head == NULL)
        return false;
    const bool is_fresh = l->body_left == head->bytes;
    const char *fault = is_fresh ? fault_of(c, p, head) : NULL;
    if (fault != NULL) {
        rg__link_break(l, "it sent a frame that is %s", fault);
        return false;
    }
    const bool is_in_place = p->in == p->out && p->out_bytes > 0;
    const uint64_t most =
        is_in_place ? handed_over(p) - p->received : FRAME_BYTES;
    const size_t got = rg__link_read(l, p->in + p->received, (size_t)most);
    p->frames_in += is_fresh && got > 0;
    p->received += got;
    c->inter->pairs->moved += got;
    return got > 0;
}

/* ------------------------------------------------------------------- a turn */

static bool move_window(rg__native *c)
{
    struct rg__pairs *x = c->inter->pairs;
    bool has_moved = false;
    for (int i = x->first; i < x->count && i < x->first + WINDOW; i++) {
        has_moved |= send_some(c, &x->pair[i]);
        has_moved |= receive_some(c, &x->pair[i]);
    }
    c->base.moves += has_moved;
    return has_moved;
}

bool rg__pairs_is_running(const rg__native *c)
{
    return c->inter->pairs != NULL && c->inter->pairs->is_running;
}

void rg__pairs_end(rg__native *c)
{
    if (!rg__pairs_is_running(c))
        return;
    c->shared->net->operations--;
    c->inter->pairs->is_running = false;
}

void rg__pairs_turn(rg__native *c)
{
    struct rg__pairs *x = c->inter->pairs;
    if (!rg__exchange_lets_begin(c, &x->may_begin))
        return;
    for (x->moved = 0; x->moved < RG__WORK_BYTES && move_window(c);)
        while (x->first < x->count && is_done(&x->pair[x->first]))
            x->first++;
    if (x->first == x->count)
        rg__pairs_end(c);
}

/* ----------------------------------------------------------------- in whole */

rg_status rg__pairs_begin(rg__native *c, int most)
{
    struct rg__pairs *x = c->inter->pairs;
    if (x == NULL)
        x = c->inter->pairs = calloc(1, sizeof *x);
    if (x != NULL && x->room < most) {
        free(x->pair);
        x->pair = calloc((size_t)most, sizeof *x->pair);
        x->room = x->pair == NULL ? 0 : most;
    }
    if (x == NULL || x->room < most)
        return rg__fail(RG_ERR_MEMORY, "no memory for an operation");
    x->count = x->first = 0;
    x->round++;
    x->may_begin = false;
    x->is_running = true;
    c->shared->net->operations++;
    return RG_OK;
}

rg_status rg__pairs_add(rg__native *c, const rg__pair *pair)
{
    struct rg__pairs *x = c->inter->pairs;
    if (pair->out_bytes == 0 && pair->in_bytes == 0)
        return RG_OK;
    rg__pair *p = &x->pair[x->count];
    *p = *pair;
    const rg_status st = rg__inter_link(c, p->member, &p->link);
    x->count += st == RG_OK;
    return st;
}

int rg__pairs_awaited(const rg__native *c, int *ranks, int room)
{
    const struct rg__pairs *x = c->inter->pairs;
    int n = 0;
    for (int i = x->first; i < x->count && i < x->first + WINDOW; i++)
        if (!is_done(&x->pair[i]) && n < room)
            ranks[n++] = x->pair[i].member;
    return n;
}

void rg__pairs_free(rg__native *c)
{
    struct rg__pairs *x = c->inter->pairs;
    if (x == NULL)
        return;
    rg__pairs_end(c);
    free(x->pair);
    free(x);
    c->inter->pairs = NULL;
}
