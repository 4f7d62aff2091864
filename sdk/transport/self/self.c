/* The transport of a world of one process: every collective is a copy, and a
 * reduction scales it. */
#include "sdk/transport/transport.h"

#include <stdlib.h>

#include "sdk/base/copy.h"
#include "sdk/base/fail.h"
#include "sdk/transport/messages/byte_ring.h"
#include "sdk/transport/names.h"
#include "sdk/transport/reduce.h"

typedef struct comm {
    rg__comm base;
    rg__messages *messages; /* the world's; owned */
    rg__byte_ring *lane;    /* owned */
    rg__coll coll;
    const char *send;
    char *recv;
    uint64_t count, at; /* in elements; at: done so far */
} comm;

static void self_close(rg__comm *base)
{
    comm *c = (comm *)base;
    rg__messages_destroy(c->messages);
    free(c->lane);
    free(c);
}

static size_t lane_put(void *lane, int rank, const char *from, size_t n)
{
    (void)rank;
    return rg__byte_ring_put(lane, from, n);
}

static size_t lane_get(void *lane, int rank, char *to, size_t n)
{
    (void)rank;
    return rg__byte_ring_get(lane, to, n);
}

static rg_status open_lane(comm *c)
{
    static const rg__lane_fns fns = {.put = lane_put, .get = lane_get};
    c->lane = aligned_alloc(_Alignof(rg__byte_ring), sizeof *c->lane);
    if (c->lane == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for messages");
    atomic_init(&c->lane->written, 0);
    atomic_init(&c->lane->read, 0);
    return rg__messages_create(1, &fns, c->lane, &c->messages);
}

static rg_status open_comm(comm **c_p)
{
    comm *c = calloc(1, sizeof *c);
    if (c == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a comm");
    c->base.transport = &rg__transport_self;
    *c_p = c;
    return RG_OK;
}

static rg_status self_open(const rg__boot *boot, rg__comm **comm_p)
{
    if (boot->size != 1)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "transport self carries a world of 1 worker, not of %d",
                        boot->size);
    comm *c = NULL;
    rg_status st = open_comm(&c);
    if (st != RG_OK)
        return st;
    st = open_lane(c);
    if (st == RG_OK)
        *comm_p = &c->base;
    else
        self_close(&c->base);
    return st;
}

static rg_status self_split(rg__comm *world, const int *ranks, int n,
                            uint32_t id, rg__comm **comm_p)
{
    (void)world, (void)id;
    if (n != 1 || ranks[0] != 0)
        return rg__fail(RG_ERR_INVALID,
                        "transport self has no set but the one of rank 0");
    comm *c = NULL;
    const rg_status st = open_comm(&c);
    if (st == RG_OK)
        *comm_p = &c->base;
    return st;
}

/* Where my part begins in send and recv, and its count, in elements. */
static void find_places(const rg__coll *o, uint64_t *send_p, uint64_t *recv_p,
                        uint64_t *count_p)
{
    *count_p = o->count;
    if (o->kind == RG__ALLTOALLV)
        *count_p = o->send_counts[0];
    if (o->kind == RG__SCATTERV || o->kind == RG__ALLTOALLV)
        *send_p = o->send_places[0];
    if (o->kind == RG__ALLGATHERV || o->kind == RG__GATHERV ||
        o->kind == RG__ALLTOALLV)
        *recv_p = o->recv_places[0];
}

static rg_status self_start(rg__comm *base, const rg__coll *coll)
{
    comm *c = (comm *)base;
    const size_t element = rg_type_size(coll->type);
    uint64_t send_at = 0, recv_at = 0, count = 0;
    c->coll = *coll;
    c->at = c->count = 0;
    c->base.joined = (rg__coll){.kind = RG__JOIN};
    if (coll->kind == RG__BROADCAST || coll->kind == RG__BARRIER ||
        coll->kind == RG__JOIN)
        return RG_OK;
    find_places(coll, &send_at, &recv_at, &count);
    if (count == 0)
        return RG_OK;
    c->send = (const char *)coll->send + send_at * element;
    c->recv = (char *)coll->recv + recv_at * element;
    c->count = count;
    return RG_OK;
}

static rg_status self_test(rg__comm *base)
{
    comm *c = (comm *)base;
    const size_t element = rg_type_size(c->coll.type);
    const uint64_t left = c->count - c->at;
    const uint64_t most = RG__WORK_BYTES / (element > 0 ? element : 1);
    const size_t now = (size_t)(left < most ? left : most);
    const void *send = c->send + c->at * element;
    char *recv = c->recv + c->at * element;
    if (now > 0 && rg__kind_adds(c->coll.kind))
        rg__combine(&c->coll, recv, &send, 1, now, 1);
    else if (now > 0 && send != recv)
        rg__copy(recv, send, now * element);
    c->at += now;
    base->moves++;
    return c->at == c->count ? RG_OK : RG_IN_PROGRESS;
}

static rg__bell *self_bell(rg__comm *world)
{
    (void)world;
    return NULL;
}

static rg__messages *self_messages(rg__comm *world)
{
    return ((comm *)world)->messages;
}

const rg__transport rg__transport_self = {.size = sizeof(rg__transport),
                                          .name = "self",
                                          .open = self_open,
                                          .split = self_split,
                                          .start = self_start,
                                          .test = self_test,
                                          .bell = self_bell,
                                          .messages = self_messages,
                                          .close = self_close};
