/* The messages of a world: starting, giving up and ending them. */
#include "sdk/transport/messages/messages_parts.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

/* ------------------------------------------------------------------ queues */

void rg__queue_add(rg__message_queue *q, rg__message *m)
{
    m->next = NULL;
    if (q->last == NULL)
        q->first = m;
    else
        q->last->next = m;
    q->last = m;
}

void rg__queue_remove(rg__message_queue *q, const rg__message *m)
{
    rg__message *before = NULL, *at = q->first;
    while (at != NULL && at != m) {
        before = at;
        at = at->next;
    }
    if (at == NULL)
        return;
    if (before == NULL)
        q->first = at->next;
    else
        before->next = at->next;
    if (q->last == at)
        q->last = before;
}

rg__message *rg__queue_pop(rg__message_queue *q)
{
    rg__message *m = q->first;
    if (m != NULL)
        rg__queue_remove(q, m);
    return m;
}

rg__message *rg__queue_find(const rg__message_queue *q, uint32_t id)
{
    rg__message *m = q->first;
    while (m != NULL && m->id != id)
        m = m->next;
    return m;
}

static void free_queue(rg__message_queue *q)
{
    for (rg__message *m; (m = rg__queue_pop(q)) != NULL;)
        rg__message_free(m);
}

/* -------------------------------------------------------------------- life */

rg_status rg__messages_create(int size, const rg__lane_fns *fns, void *arg,
                              rg__messages **messages_p)
{
    rg__messages *all = calloc(1, sizeof *all);
    rg__lane **lane = calloc((size_t)size, sizeof(rg__lane *));
    if (all == NULL || lane == NULL) {
        free(all);
        free(lane);
        return rg__fail(RG_ERR_MEMORY, "no memory for messages");
    }
    *all = (rg__messages){.fns = *fns, .arg = arg, .size = size, .lane = lane};
    *messages_p = all;
    return RG_OK;
}

#define QUEUES 7

static rg__message_queue *queue_at(rg__lane *lane, int i)
{
    rg__message_queue *const all[QUEUES] = {
        &lane->queue,     &lane->offered, &lane->sending,  &lane->settling,
        &lane->accepting, &lane->posted,  &lane->receiving};
    return all[i];
}

static void free_lane(rg__lane *lane)
{
    if (lane == NULL)
        return;
    if (lane->out.message != NULL)
        rg__message_free(lane->out.message);
    rg__incoming_free(lane);
    for (int i = 0; i < QUEUES; i++)
        free_queue(queue_at(lane, i));
    free(lane->out.rest);
    free(lane->withdrawn);
    free(lane->why);
    free(lane);
}

void rg__messages_destroy(rg__messages *all)
{
    if (all == NULL)
        return;
    for (int r = 0; r < all->size; r++)
        free_lane(all->lane[r]);
    free_queue(&all->done);
    free((void *)all->lane);
    free(all);
}

void rg__message_free(rg__message *m)
{
    free(m->why);
    free(m);
}

/* ------------------------------------------------------------ start and end */

static rg__lane *lane_of(rg__messages *all, int rank)
{
    rg__lane *lane = all->lane[rank];
    if (lane == NULL)
        lane = all->lane[rank] = calloc(1, sizeof *lane);
    if (lane != NULL)
        lane->rank = rank;
    return lane;
}

static void list(rg__messages *all, rg__lane *lane)
{
    if (lane->is_listed)
        return;
    lane->is_listed = true;
    lane->next = all->busy;
    all->busy = lane;
}

static void count_in(rg__messages *all, rg__lane *lane)
{
    all->in_flight++;
    lane->in_flight++;
    list(all, lane);
}

static void count_out(rg__messages *all, rg__lane *lane)
{
    all->in_flight--;
    lane->in_flight--;
    if (all->in_flight == 0 && all->fns.turn != NULL)
        all->fns.turn(all->arg, 0);
}

rg_status rg__messages_post(rg__messages *all, const rg__letter *letter,
                            rg__message **message_p)
{
    rg__lane *lane = lane_of(all, letter->peer);
    rg__message *m = calloc(1, sizeof *m);
    if (lane == NULL || m == NULL) {
        free(m);
        return rg__fail(RG_ERR_MEMORY, "no memory for a message");
    }
    m->letter = *letter;
    count_in(all, lane);
    *message_p = m;
    if (lane->is_broken) {
        rg__message_end(all, lane, m, RG_ERR_PEER_LOST, lane->why);
    } else if (letter->is_send) {
        m->bytes = letter->bytes;
        rg__queue_add(&lane->queue, m);
    } else {
        rg__incoming_post(all, lane, m);
    }
    return RG_OK;
}

void rg__message_end(rg__messages *all, rg__lane *lane, rg__message *m,
                     rg_status st, const char *why)
{
    if (m->is_dropped) {
        rg__message_free(m);
        return;
    }
    m->state = DONE;
    m->st = st;
    if (why != NULL && m->why == NULL)
        m->why = strdup(why);
    count_out(all, lane);
    rg__queue_add(&all->done, m);
}

void rg__lane_break(rg__lane *lane, const char *why)
{
    if (lane->is_broken)
        return;
    lane->is_broken = true;
    lane->why = strdup(why);
}

void rg__messages_fail(rg__messages *all, int rank, const char *why)
{
    rg__lane_break(all->lane[rank], why);
}

static void end_all(rg__messages *all, rg__lane *lane)
{
    rg__message *const out = lane->out.message;
    lane->out.message = NULL;
    rg__incoming_free(lane);
    if (out != NULL)
        rg__message_end(all, lane, out, RG_ERR_PEER_LOST, lane->why);
    for (int i = 0; i < QUEUES; i++)
        for (rg__message *m; (m = rg__queue_pop(queue_at(lane, i))) != NULL;)
            rg__message_end(all, lane, m, RG_ERR_PEER_LOST, lane->why);
}

/* Take a message out of its queue, and tell a peer that knows of it. */
static void take_back(rg__lane *lane, rg__message *m)
{
    switch (m->state) {
    case IN_QUEUE:
        rg__queue_remove(&lane->queue, m);
        break;
    case OFFERED:
        rg__queue_remove(&lane->offered, m);
        rg__outgoing_withdraw(lane, m->id);
        break;
    case SETTLING:
        rg__queue_remove(&lane->settling, m);
        break;
    case SENDING:
        rg__queue_remove(&lane->sending, m);
        rg__outgoing_withdraw(lane, m->id);
        break;
    default:
        rg__incoming_drop(lane, m);
        break;
    }
}

void rg__message_drop(rg__messages *all, rg__message *m)
{
    rg__lane *lane = all->lane[m->letter.peer];
    if (m->state == DONE) {
        rg__queue_remove(&all->done, m);
        rg__message_free(m);
        return;
    }
    list(all, lane); /* until the peer has been told */
    m->is_dropped = true;
    m->letter.data = NULL;
    count_out(all, lane);
    rg__outgoing_let_go(lane, m);
    const bool is_to_come =
        m->state == RECEIVING || m->state == ACCEPTING; /* its data are due */
    take_back(lane, m);
    if (!is_to_come)
        rg__message_free(m);
}

/* -------------------------------------------------------------------- turns */

/* Has the lane work, for messages in flight or for those that were given up? */
static bool has_work(const rg__lane *lane)
{
    return lane->in_flight > 0 ||
           (!lane->is_broken &&
            (lane->out.is_busy || lane->withdrawals > 0 ||
             lane->accepting.first != NULL || lane->receiving.first != NULL));
}

bool rg__messages_carry(rg__messages *all)
{
    bool has_moved = false;
    if (all->in_flight > 0 && all->fns.turn != NULL)
        all->fns.turn(all->arg, all->in_flight);
    for (rg__lane **at = &all->busy; *at != NULL;) {
        rg__lane *lane = *at;
        const bool came = rg__incoming_carry(all, lane);
        const bool went = rg__outgoing_carry(all, lane);
        if (lane->is_broken)
            end_all(all, lane);
        if ((came || went) && all->fns.ring != NULL)
            all->fns.ring(all->arg, lane->rank);
        has_moved = has_moved || came || went;
        if (has_work(lane)) {
            at = &lane->next;
            continue;
        }
        lane->is_listed = false;
        *at = lane->next;
    }
    return has_moved;
}

rg__message *rg__messages_take(rg__messages *all)
{
    return rg__queue_pop(&all->done);
}

rg__outcome rg__message_outcome(const rg__message *m)
{
    return (rg__outcome){.owner = m->letter.owner,
                         .st = m->st,
                         .bytes = m->st == RG_OK ? m->bytes : 0,
                         .why = m->why};
}

bool rg__messages_is_forgotten(const rg__messages *all, uint32_t set)
{
    const uint32_t last = all->forgotten[set % RG__SETS_MAX];
    return last != 0 && set <= last;
}

void rg__messages_remember(rg__messages *all, uint32_t set)
{
    uint32_t *last = &all->forgotten[set % RG__SETS_MAX];
    if (*last >= set)
        *last = 0;
}

void rg__messages_forget(rg__messages *all, uint32_t set)
{
    all->forgotten[set % RG__SETS_MAX] = set;
    for (int r = 0; r < all->size; r++)
        if (all->lane[r] != NULL)
            rg__incoming_forget(all->lane[r], set);
}
