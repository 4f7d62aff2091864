/* Messages between two members of a set: only the checks are here. */
#include "process_sets/call.h"
#include "sdk/base/fail.h"

static rg_status check_host(const rg__call *c)
{
    return c->params.memory == RG_HOST
               ? RG_OK
               : rg__fail(RG_ERR_UNSUPPORTED,
                          "%s takes host memory only; copy what is on the "
                          "device to host memory first",
                          c->what);
}

static rg_status check_alone(const rg__call *c)
{
    return !rg__group_is_open(c->set->ctx)
               ? RG_OK
               : rg__fail(RG_ERR_INVALID,
                          "%s can't be in a group, since it waits for no "
                          "other operation anyway; start it before "
                          "rg_group_start or after rg_group_end",
                          c->what);
}

/* Translates the peer's rank to the world's. */
static rg_status find_peer(const rg__call *c, int peer, int *rank_p)
{
    if (peer < 0 || peer >= c->n)
        return rg__fail(RG_ERR_INVALID,
                        "%s: %d is not a rank of set %s, which has %d", c->what,
                        peer, rg_set_name(c->set), c->n);
    *rank_p = peer;
    return rg__set_is_world(c->set)
               ? RG_OK
               : rg_set_translate(c->set, &peer, 1, rg_world(c->set->ctx),
                                  rank_p);
}

/* The caller has set direction, peer, data and count in s. */
static rg_status start(rg__message_start *s, rg_set *set, rg_type type,
                       const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st = rg__call_begin_typed(&c, s->is_send ? "send" : "recv", set,
                                        RG__COLL_NONE, type, params, req_p);
    if (st == RG_OK)
        st = check_host(&c);
    if (st == RG_OK)
        st = check_alone(&c);
    if (st == RG_OK)
        st = find_peer(&c, s->peer, &s->peer_rank);
    if (st == RG_OK)
        st = rg__call_check_buffer(&c, s->data, s->count, 1);
    if (st != RG_OK) {
        rg__group_spoil(st);
        return st;
    }
    s->type = type;
    s->tag = c.params.tag;
    s->timeout_ms = c.params.timeout_ms;
    return rg__channel_begin_message(set->channel, s, req_p);
}

rg_status rg_send_start(rg_set *set, const void *data, uint64_t count,
                        rg_type type, int peer, const rg_op_params *params,
                        rg_req **req_p)
{
    rg__message_start s = {.is_send = true,
                           .peer = peer,
                           .data = (char *)(uintptr_t)data,
                           .count = count};
    return start(&s, set, type, params, req_p);
}

rg_status rg_recv_start(rg_set *set, void *data, uint64_t count, rg_type type,
                        int peer, uint64_t *count_p, const rg_op_params *params,
                        rg_req **req_p)
{
    rg__message_start s = {
        .peer = peer, .data = data, .count = count, .count_p = count_p};
    return start(&s, set, type, params, req_p);
}

#define WITH_TAG(t) (&(rg_op_params){.size = sizeof(rg_op_params), .tag = (t)})

rg_status rg_send(rg_set *set, const void *data, uint64_t count, rg_type type,
                  int peer, uint64_t tag)
{
    rg_req *req = NULL;
    const rg_status st =
        rg_send_start(set, data, count, type, peer, WITH_TAG(tag), &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}

rg_status rg_recv(rg_set *set, void *data, uint64_t count, rg_type type,
                  int peer, uint64_t tag, uint64_t *count_p)
{
    rg_req *req = NULL;
    const rg_status st = rg_recv_start(set, data, count, type, peer, count_p,
                                       WITH_TAG(tag), &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}
