/* What goes out over a lane: one frame after the other. Answers go before data,
 * and the data of several messages take turns. */
#include <stdlib.h>
#include <string.h>

#include "sdk/base/grow.h"

#include "sdk/transport/messages/messages_parts.h"

#define CREDIT_BYTES (RG__MESSAGE_WINDOW / 4) /* so many are worth a frame */

static uint64_t cost_of(uint64_t bytes)
{
    return HEAD_BYTES + bytes;
}

/* ------------------------------------------------------------------- frames */

static void begin_frame(rg__lane *lane, rg__message_head head)
{
    memcpy(lane->out.bytes, &head, HEAD_BYTES);
    lane->out.n = HEAD_BYTES;
    lane->out.at = 0;
    lane->out.message = NULL;
    lane->out.body_left = 0;
    lane->out.is_busy = true;
}

static rg__message_head head_of(const rg__message *m, rg__message_kind kind)
{
    return (rg__message_head){.kind = (uint16_t)kind,
                              .type = (uint16_t)m->letter.type,
                              .set = m->letter.set,
                              .id = m->id,
                              .tag = m->letter.tag,
                              .bytes = m->bytes};
}

static void send_credit(rg__lane *lane)
{
    begin_frame(
        lane, (rg__message_head){.kind = MESSAGE_CREDIT, .bytes = lane->owed});
    lane->owed = 0;
}

/* A receive that is refused, or empty, ends with its answer. */
static void send_accept(rg__lane *lane)
{
    rg__message *m = rg__queue_pop(&lane->accepting);
    rg__message_head head = head_of(m, MESSAGE_ACCEPT);
    const bool is_over = m->st != RG_OK || m->bytes == 0;
    if (is_over)
        head.bytes = 0;
    begin_frame(lane, head);
    if (is_over) {
        m->state = MATCHED;
        lane->out.message = m;
    } else {
        m->state = RECEIVING;
        rg__queue_add(&lane->receiving, m);
    }
}

static void send_withdraw(rg__lane *lane)
{
    const uint32_t id = lane->withdrawn[--lane->withdrawals];
    begin_frame(lane, (rg__message_head){.kind = MESSAGE_WITHDRAW, .id = id});
}

static void announce(rg__lane *lane)
{
    rg__message *m = rg__queue_pop(&lane->queue);
    if (m->bytes <= RG__MESSAGE_EAGER &&
        lane->window_used + cost_of(m->bytes) <= RG__MESSAGE_WINDOW) {
        lane->window_used += cost_of(m->bytes);
        begin_frame(lane, head_of(m, MESSAGE_EAGER));
        if (m->bytes > 0)
            memcpy(lane->out.bytes + HEAD_BYTES, m->letter.data, m->bytes);
        lane->out.n += m->bytes;
        lane->out.message = m;
        return;
    }
    m->id = ++lane->ids;
    m->state = OFFERED;
    rg__queue_add(&lane->offered, m);
    begin_frame(lane, head_of(m, MESSAGE_OFFER));
}

static void send_data(rg__lane *lane)
{
    rg__message *m = rg__queue_pop(&lane->sending);
    rg__message_head head = head_of(m, MESSAGE_DATA);
    head.bytes =
        m->bytes - m->at < CHUNK_BYTES ? m->bytes - m->at : CHUNK_BYTES;
    begin_frame(lane, head);
    lane->out.message = m;
    lane->out.body = m->letter.data + m->at;
    lane->out.body_left = head.bytes;
}

static bool next_frame(rg__lane *lane)
{
    if (lane->owed >= CREDIT_BYTES)
        send_credit(lane);
    else if (lane->accepting.first != NULL)
        send_accept(lane);
    else if (lane->withdrawals > 0)
        send_withdraw(lane);
    else if (lane->queue.first != NULL)
        announce(lane);
    else if (lane->sending.first != NULL)
        send_data(lane);
    else
        return false;
    return true;
}

static void settle_later(rg__lane *lane, rg__message *m)
{
    m->put = lane->put;
    m->state = SETTLING;
    rg__queue_add(&lane->settling, m);
}

/* The frame has been sent. */
static void end_frame(rg__messages *all, rg__lane *lane)
{
    rg__message *m = lane->out.message;
    rg__message_head head;
    memcpy(&head, lane->out.bytes, sizeof head);
    lane->out.is_busy = false;
    lane->out.message = NULL;
    free(lane->out.rest);
    lane->out.rest = NULL;
    if (m == NULL)
        return;
    if (head.kind == MESSAGE_DATA)
        m->at += head.bytes;
    if (head.kind == MESSAGE_DATA && m->at < m->bytes)
        rg__queue_add(&lane->sending, m);
    else if (all->fns.settled == NULL)
        rg__message_end(all, lane, m, m->st, NULL);
    else
        settle_later(lane, m);
}

static void settle(rg__messages *all, rg__lane *lane)
{
    if (lane->settling.first == NULL)
        return;
    const uint64_t settled = all->fns.settled(all->arg, lane->rank);
    while (lane->settling.first != NULL &&
           lane->settling.first->put <= settled) {
        rg__message *m = rg__queue_pop(&lane->settling);
        rg__message_end(all, lane, m, m->st, NULL);
    }
}

static size_t put_frame(rg__messages *all, rg__lane *lane)
{
    if (lane->out.at < lane->out.n) {
        const size_t n =
            all->fns.put(all->arg, lane->rank, lane->out.bytes + lane->out.at,
                         lane->out.n - lane->out.at);
        lane->out.at += n;
        return n;
    }
    const size_t n = all->fns.put(all->arg, lane->rank, lane->out.body,
                                  (size_t)lane->out.body_left);
    lane->out.body += n;
    lane->out.body_left -= n;
    return n;
}

bool rg__outgoing_carry(rg__messages *all, rg__lane *lane)
{
    size_t moved = 0;
    while (moved < RG__WORK_BYTES && !lane->is_broken) {
        if (!lane->out.is_busy && !next_frame(lane))
            break;
        const size_t now = put_frame(all, lane);
        if (now == 0)
            break;
        moved += now;
        lane->put += now;
        if (lane->out.at == lane->out.n && lane->out.body_left == 0)
            end_frame(all, lane);
    }
    if (!lane->is_broken)
        settle(all, lane);
    return moved > 0;
}

/* ------------------------------------------------------------------ answers */

void rg__outgoing_accepted(rg__messages *all, rg__lane *lane,
                           const rg__message_head *head)
{
    rg__message *m = rg__queue_find(&lane->offered, head->id);
    if (m == NULL)
        return; /* the send was withdrawn meanwhile */
    rg__queue_remove(&lane->offered, m);
    if (head->bytes == 0) {
        rg__message_end(all, lane, m, RG_OK, NULL);
        return;
    }
    m->state = SENDING;
    rg__queue_add(&lane->sending, m);
}

void rg__outgoing_let_go(rg__lane *lane, const rg__message *m)
{
    const size_t left = (size_t)lane->out.body_left;
    if (lane->out.message != m)
        return;
    lane->out.message = NULL;
    if (left == 0)
        return;
    lane->out.rest = malloc(left);
    if (lane->out.rest == NULL) {
        rg__lane_break(lane, "there was no memory for the end of a message");
        return;
    }
    memcpy(lane->out.rest, lane->out.body, left);
    lane->out.body = lane->out.rest;
}

/* Without memory the peer waits for the rest, as for any late rank. */
void rg__outgoing_withdraw(rg__lane *lane, uint32_t id)
{
    uint32_t *one =
        rg__grow(&lane->withdrawn, (size_t)lane->withdrawals, sizeof *one);
    if (one == NULL)
        return;
    *one = id;
    lane->withdrawals++;
}
