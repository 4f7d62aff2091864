/* Requests for messages between two members: they are in no queue of their set,
 * so that none waits for a collective or for another message. */
#include <inttypes.h>
#include <stdio.h>

#include "sdk/base/failpoint.h"
#include "sdk/core/engine_parts.h"

void rg__message_words(const rg_req *req, char *text, size_t room)
{
    snprintf(text, room, "%s of %" PRIu64 " elements %s rank %d, tag %" PRIu64,
             req->is_send ? "send" : "recv", req->coll.count,
             req->is_send ? "to" : "from", req->peer, req->coll.tag);
}

/* ------------------------------------------------------------------- ending */

void rg__message_link(rg__channel *ch, rg_req *req)
{
    req->next = ch->messages;
    req->before = NULL;
    if (ch->messages != NULL)
        ch->messages->before = req;
    ch->messages = req;
}

static void link_out(rg_req *req)
{
    if (req->before != NULL)
        req->before->next = req->next;
    else
        req->channel->messages = req->next;
    if (req->next != NULL)
        req->next->before = req->before;
}

static void end(rg__engine *e, rg_req *req, rg_status st, const char *why)
{
    char text[400], words[80];
    link_out(req);
    if (st != RG_OK && why != NULL) {
        rg__message_words(req, words, sizeof words);
        snprintf(text, sizeof text, "%s: %s", words, why);
        why = text;
    }
    rg__req_finish(e, req, st, why);
}

/* The message has ended of its own accord. */
static void collect(rg__engine *e, rg__message *m)
{
    const rg__outcome o = rg__message_outcome(m);
    rg_req *req = o.owner;
    if (o.st == RG_OK && req->count_p != NULL)
        *req->count_p = o.bytes / rg_type_size(req->coll.type);
    end(e, req, o.st, o.why);
    rg__message_free(m);
}

bool rg__engine_carry_messages(rg__engine *e)
{
    rg__messages *all = rg__engine_messages(e);
    if (all == NULL)
        return false;
    const bool has_moved = rg__messages_carry(all);
    bool has_ended = false;
    for (rg__message *m; (m = rg__messages_take(all)) != NULL;) {
        has_ended = true;
        collect(e, m);
    }
    if (has_moved && !has_ended)
        rg__failpoint("message.middle", e->rank, atomic_load(&e->page->step),
                      atomic_load(&e->generation));
    return has_moved || has_ended;
}

void rg__message_give_up(rg__engine *e, rg_req *req, rg_status st,
                         const char *why)
{
    rg__messages *all = rg__engine_messages(e);
    if (all != NULL)
        rg__message_drop(all, req->message);
    end(e, req, st, why);
}

void rg__channel_drop_messages(rg__channel *ch, rg_status st, const char *why)
{
    while (ch->messages != NULL)
        rg__message_give_up(ch->engine, ch->messages, st, why);
}
