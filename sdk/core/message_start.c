/* Starting a message between two members. */
#include "sdk/base/fail.h"
#include "sdk/core/engine_parts.h"

static rg_req *make_request(rg__channel *ch, const rg__message_start *s)
{
    const rg__start start = {.coll = {.count = s->count, .type = s->type},
                             .timeout_ms = s->timeout_ms};
    rg_req *req = rg__req_create(ch, &start);
    if (req == NULL)
        return NULL;
    req->is_send = s->is_send;
    req->peer = s->peer;
    req->peer_rank = s->peer_rank;
    req->count_p = s->count_p;
    return req;
}

/* Lock held. */
static rg_status post(rg__channel *ch, const rg__message_start *s, rg_req *req)
{
    rg__engine *e = ch->engine;
    rg_status st = rg__channel_check_start(ch);
    if (st != RG_OK)
        return st;
    rg__messages *all = rg__engine_messages(e);
    if (all == NULL)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "transport %s carries no messages between two ranks",
                        e->transport->name);
    const rg__letter letter = {.is_send = s->is_send,
                               .peer = s->peer_rank,
                               .set = ch->id,
                               .tag = s->tag,
                               .type = s->type,
                               .bytes = s->count * rg_type_size(s->type),
                               .data = s->data,
                               .owner = req};
    st = rg__messages_post(all, &letter, &req->message);
    if (st != RG_OK)
        return st;
    rg__message_link(ch, req);
    rg__record_queued(ch, req);
    rg__channel_note_busy(ch);
    rg__req_count_in(ch, 1);
    rg__engine_carry_messages(e);
    rg__engine_hand_over(e);
    return RG_OK;
}

rg_status rg__channel_begin_message(rg__channel *ch, const rg__message_start *s,
                                    rg_req **req_p)
{
    rg_req *req = make_request(ch, s);
    if (req == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a request");
    rg__engine_lock(ch->engine);
    const rg_status st = post(ch, s, req);
    rg__engine_unlock(ch->engine);
    if (st != RG_OK) {
        rg__req_free(req);
        return st;
    }
    rg__engine_wake(ch->engine, s->count * rg_type_size(s->type));
    *req_p = req;
    return RG_OK;
}
