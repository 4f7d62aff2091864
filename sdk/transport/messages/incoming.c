/* What comes in over a lane, and the receives that it is for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/chain.h"
#include "sdk/base/copy.h"
#include "sdk/transport/messages/messages_parts.h"
#include "sdk/transport/names.h"

#define SINK_BYTES 4096

static uint64_t cost_of(const rg__message_head *head)
{
    return HEAD_BYTES + head->bytes;
}

/* ----------------------------------------------------------------- matching */

static bool is_for(const rg__message_head *head, const rg__message *m)
{
    return head->set == m->letter.set && head->tag == m->letter.tag;
}

static rg__message *find_receive(const rg__lane *lane,
                                 const rg__message_head *head)
{
    for (rg__message *m = lane->posted.first; m != NULL; m = m->next)
        if (is_for(head, m))
            return m;
    return NULL;
}

static unsigned long long elements_in(uint64_t bytes, rg_type type)
{
    const size_t size = rg_type_size(type); /* 0: of a peer's own making */
    return size == 0 ? bytes : bytes / size;
}

/* Does a message fit its receive? If not, the reason is noted. */
static bool fits(rg__message *m, const rg__message_head *head)
{
    char why[160];
    if (head->type == m->letter.type && head->bytes <= m->letter.bytes)
        return true;
    snprintf(why, sizeof why,
             "the message has %llu elements of %s, and there is room for %llu "
             "of %s; nothing was written, and the message is gone",
             elements_in(head->bytes, (rg_type)head->type),
             rg__type_name((rg_type)head->type),
             elements_in(m->letter.bytes, m->letter.type),
             rg__type_name(m->letter.type));
    m->st = RG_ERR_MISMATCH;
    m->why = strdup(why);
    return false;
}

/* An offered message is for m, which is in no queue. */
static void accept_offer(rg__lane *lane, rg__message *m,
                         const rg__message_head *head)
{
    fits(m, head);
    m->id = head->id;
    m->bytes = head->bytes;
    m->state = ACCEPTING;
    rg__queue_add(&lane->accepting, m);
}

/* ----------------------------------------------------------------- arrivals */

static rg__arrival *add_arrival(rg__lane *lane, const rg__message_head *head)
{
    const uint64_t data = head->kind == MESSAGE_EAGER ? head->bytes : 0;
    rg__arrival *a = malloc(sizeof *a + data);
    if (a == NULL)
        return NULL;
    *a = (rg__arrival){.head = *head, .is_whole = data == 0};
    rg__chain_append(&lane->arrived, a);
    if (head->kind == MESSAGE_EAGER)
        lane->kept += cost_of(head);
    return a;
}

static void remove_arrival(rg__lane *lane, rg__arrival *a)
{
    rg__chain_remove(&lane->arrived, a);
    if (a->head.kind == MESSAGE_EAGER) {
        lane->kept -= cost_of(&a->head);
        lane->owed += cost_of(&a->head);
    }
    free(a);
}

/* Hand over an eager message that is here as a whole. */
static void deliver(rg__messages *all, rg__lane *lane, rg__arrival *a,
                    rg__message *m)
{
    if (fits(m, &a->head) && a->head.bytes > 0)
        rg__copy(m->letter.data, a->data, (size_t)a->head.bytes);
    m->bytes = a->head.bytes;
    remove_arrival(lane, a);
    rg__message_end(all, lane, m, m->st, NULL);
}

void rg__incoming_post(rg__messages *all, rg__lane *lane, rg__message *m)
{
    rg__arrival *a = lane->arrived;
    while (a != NULL && (a->taker != NULL || !is_for(&a->head, m)))
        a = a->next;
    if (a == NULL) {
        m->state = POSTED;
        rg__queue_add(&lane->posted, m);
    } else if (a->head.kind == MESSAGE_OFFER) {
        accept_offer(lane, m, &a->head);
        remove_arrival(lane, a);
    } else if (a->is_whole) {
        deliver(all, lane, a, m);
    } else {
        m->state = MATCHED;
        a->taker = m;
    }
}

void rg__incoming_drop(rg__lane *lane, rg__message *m)
{
    rg__queue_remove(&lane->posted, m);
    if (lane->in.message == m) {
        lane->in.to = NULL;
        if (m->state == MATCHED)
            lane->in.message = NULL;
    }
    for (rg__arrival *a = lane->arrived; a != NULL; a = a->next)
        if (a->taker == m)
            a->taker = NULL;
}

void rg__incoming_forget(rg__lane *lane, uint32_t set)
{
    for (rg__arrival *a = lane->arrived, *next; a != NULL; a = next) {
        next = a->next;
        if (a->head.set == set && a->is_whole)
            remove_arrival(lane, a);
    }
}

void rg__incoming_free(rg__lane *lane)
{
    for (rg__arrival *a = lane->arrived, *next; a != NULL; a = next) {
        next = a->next;
        if (a->taker != NULL)
            rg__queue_add(&lane->posted, a->taker);
        free(a);
    }
    lane->arrived = NULL;
    if (lane->in.message != NULL && lane->in.message->state == MATCHED)
        rg__queue_add(&lane->posted, lane->in.message);
    lane->in.message = NULL;
}

/* -------------------------------------------------------------------- heads */

static void expect_body(rg__lane *lane, rg__message *m, rg__arrival *a,
                        char *to)
{
    lane->in.is_body = true;
    lane->in.message = m;
    lane->in.arrival = a;
    lane->in.to = to;
    lane->in.left = lane->in.head.bytes;
}

/* false: there is no memory for it now; try again. */
static bool on_eager(rg__lane *lane)
{
    const rg__message_head *head = &lane->in.head;
    rg__message *m = find_receive(lane, head);
    if (head->bytes > RG__MESSAGE_EAGER ||
        lane->kept + cost_of(head) > RG__MESSAGE_WINDOW) {
        rg__lane_break(lane, "that rank has sent more than was asked for");
        return true;
    }
    if (m == NULL) {
        rg__arrival *a = add_arrival(lane, head);
        if (a != NULL)
            expect_body(lane, NULL, a, a->data);
        return a != NULL;
    }
    rg__queue_remove(&lane->posted, m);
    lane->owed += cost_of(head);
    m->state = MATCHED;
    m->bytes = head->bytes;
    expect_body(lane, m, NULL, fits(m, head) ? m->letter.data : NULL);
    return true;
}

static bool on_offer(const rg__messages *all, rg__lane *lane)
{
    const rg__message_head *head = &lane->in.head;
    rg__message *m = find_receive(lane, head);
    if (m == NULL)
        return rg__messages_is_forgotten(all, head->set) ||
               add_arrival(lane, head) != NULL;
    rg__queue_remove(&lane->posted, m);
    accept_offer(lane, m, head);
    return true;
}

static void on_data(rg__lane *lane)
{
    const rg__message_head *head = &lane->in.head;
    rg__message *m = rg__queue_find(&lane->receiving, head->id);
    if (m == NULL || head->bytes == 0 || head->bytes > CHUNK_BYTES ||
        head->bytes > m->bytes - m->at) {
        rg__lane_break(lane, "that rank has sent data of no message");
        return;
    }
    expect_body(lane, m, NULL, m->is_dropped ? NULL : m->letter.data + m->at);
}

static void end_withdrawn(rg__messages *all, rg__lane *lane,
                          rg__message_queue *q, uint32_t id)
{
    rg__message *m = rg__queue_find(q, id);
    if (m == NULL)
        return;
    rg__queue_remove(q, m);
    rg__message_end(all, lane, m, RG_ERR_PEER_LOST,
                    "its sender has given the message up");
}

static void on_withdraw(rg__messages *all, rg__lane *lane)
{
    const uint32_t id = lane->in.head.id;
    end_withdrawn(all, lane, &lane->accepting, id);
    end_withdrawn(all, lane, &lane->receiving, id);
    for (rg__arrival *a = lane->arrived, *next; a != NULL; a = next) {
        next = a->next;
        if (a->head.kind == MESSAGE_OFFER && a->head.id == id)
            remove_arrival(lane, a);
    }
}

static void on_credit(rg__lane *lane)
{
    const uint64_t bytes = lane->in.head.bytes;
    lane->window_used -= bytes < lane->window_used ? bytes : lane->window_used;
}

/* false: try again later. */
static bool on_head(rg__messages *all, rg__lane *lane)
{
    switch (lane->in.head.kind) {
    case MESSAGE_EAGER:
        return on_eager(lane);
    case MESSAGE_OFFER:
        return on_offer(all, lane);
    case MESSAGE_ACCEPT:
        rg__outgoing_accepted(all, lane, &lane->in.head);
        return true;
    case MESSAGE_DATA:
        on_data(lane);
        return true;
    case MESSAGE_WITHDRAW:
        on_withdraw(all, lane);
        return true;
    case MESSAGE_CREDIT:
        on_credit(lane);
        return true;
    default:
        rg__lane_break(lane, "that rank has sent bytes that are not a message");
        return true;
    }
}

/* ------------------------------------------------------------------- bodies */

static void end_body(rg__messages *all, rg__lane *lane)
{
    rg__message *m = lane->in.message;
    rg__arrival *a = lane->in.arrival;
    lane->in.is_body = false;
    lane->in.message = NULL;
    lane->in.arrival = NULL;
    lane->in.at = 0;
    if (a != NULL) {
        a->is_whole = true;
        if (a->taker != NULL)
            deliver(all, lane, a, a->taker);
        else if (rg__messages_is_forgotten(all, a->head.set))
            remove_arrival(lane, a);
    } else if (m != NULL && m->state == MATCHED) {
        rg__message_end(all, lane, m, m->st, NULL);
    } else if (m != NULL) {
        m->at += lane->in.head.bytes;
        if (m->at == m->bytes) {
            rg__queue_remove(&lane->receiving, m);
            rg__message_end(all, lane, m, RG_OK, NULL);
        }
    }
}

static size_t read_head(rg__messages *all, rg__lane *lane)
{
    const size_t n = lane->in.at == HEAD_BYTES
                         ? 0
                         : all->fns.get(all->arg, lane->rank,
                                        (char *)&lane->in.head + lane->in.at,
                                        HEAD_BYTES - lane->in.at);
    lane->in.at += n;
    if (lane->in.at == HEAD_BYTES && on_head(all, lane) && !lane->in.is_body)
        lane->in.at = 0;
    return n;
}

static size_t read_body(rg__messages *all, rg__lane *lane)
{
    char sink[SINK_BYTES];
    size_t want = (size_t)lane->in.left;
    if (lane->in.to == NULL && want > sizeof sink)
        want = sizeof sink;
    const size_t n = all->fns.get(
        all->arg, lane->rank, lane->in.to == NULL ? sink : lane->in.to, want);
    if (lane->in.to != NULL)
        lane->in.to += n;
    lane->in.left -= n;
    return n;
}

bool rg__incoming_carry(rg__messages *all, rg__lane *lane)
{
    size_t moved = 0;
    while (moved < RG__WORK_BYTES && !lane->is_broken) {
        const size_t now = lane->in.is_body && lane->in.left > 0
                               ? read_body(all, lane)
                               : read_head(all, lane);
        if (lane->in.is_body && lane->in.left == 0)
            end_body(all, lane);
        if (now == 0)
            break;
        moved += now;
    }
    return moved > 0;
}
