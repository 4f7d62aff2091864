/* Lanes of messages: rings in the control segment between ranks of one host,
 * connections between hosts. */
#include "sdk/transport/native/native.h"

static bool is_near(const rg__shared *sh, int rank)
{
    return sh->host[rank] == sh->host[sh->rank];
}

/* ------------------------------------------------------------ on this host */

static rg__byte_ring *ring_of(const rg__shared *sh, int from, int to)
{
    rg__byte_ring *rings = (rg__byte_ring *)(void *)(sh->at + sh->layout.lanes);
    return &rings[sh->local_rank[from] * sh->local_size + sh->local_rank[to]];
}

static void lane_ring(void *arg, int rank)
{
    const rg__shared *sh = arg;
    if (!is_near(sh, rank))
        return;
    atomic_thread_fence(memory_order_seq_cst); /* bytes first, then the bell */
    rg__bell_ring_for(&rg__shm_bell_line(sh, rank)->bell, UINT32_MAX);
}

/* ----------------------------------------------------------- between hosts */

/* Bytes of the frame's body that have been sent. */
static size_t body_sent(const rg__link *l)
{
    return l->out_at <= sizeof l->out ? 0 : l->out_at - sizeof l->out;
}

static size_t link_put(rg__link *l, const char *from, size_t n)
{
    if (l == NULL)
        return 0;
    if (!l->is_sending) {
        const size_t bytes = n < MESSAGE_MAX ? n : MESSAGE_MAX;
        rg__link_begin(
            l, (rg__frame){.kind = FRAME_MESSAGE, .bytes = (uint32_t)bytes});
    }
    const size_t before = body_sent(l);
    rg__link_flush(l, from - before);
    return body_sent(l) - before;
}

static size_t link_get(rg__link *l, char *to, size_t n)
{
    const rg__frame *head = l == NULL ? NULL : rg__link_head(l);
    if (head == NULL)
        return 0;
    if (head->kind != FRAME_MESSAGE) {
        rg__link_break(l, "it sent a frame that is not a message");
        return 0;
    }
    return rg__link_read(l, to, n);
}

/* -------------------------------------------------------------------- lanes */

static size_t lane_put(void *arg, int rank, const char *from, size_t n)
{
    const rg__shared *sh = arg;
    return is_near(sh, rank)
               ? rg__byte_ring_put(ring_of(sh, sh->rank, rank), from, n)
               : link_put(rg__link_for_messages(sh->net, rank), from, n);
}

static size_t lane_get(void *arg, int rank, char *to, size_t n)
{
    const rg__shared *sh = arg;
    return is_near(sh, rank)
               ? rg__byte_ring_get(ring_of(sh, rank, sh->rank), to, n)
               : link_get(sh->net->message_in[rank], to, n);
}

static bool is_one_coming_up(const rg__net *net)
{
    for (const rg__link *l = net->links; l != NULL; l = l->next)
        if (l->set == RG__SET_MESSAGES && !rg__link_is_settled(l))
            return true;
    return false;
}

static void lane_turn(void *arg, int waiting)
{
    const rg__shared *sh = arg;
    if (sh->net == NULL)
        return;
    sh->net->messages = waiting;
    if (waiting > 0)
        rg__net_poll(sh->net, is_one_coming_up(sh->net));
}

rg_status rg__native_open_lanes(rg__shared *sh)
{
    static const rg__lane_fns fns = {
        .put = lane_put, .get = lane_get, .ring = lane_ring, .turn = lane_turn};
    return rg__messages_create(sh->size, &fns, sh, &sh->messages);
}

bool rg__native_lane_has_left(const rg__shared *sh, int rank)
{
    const rg__link *l = is_near(sh, rank) ? NULL : sh->net->message_in[rank];
    return l != NULL && l->state == LINK_LEFT && l->has_ended;
}
