/* The transport of a world of one process: every collective is a copy. */
#include "sdk/transport/transport.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

typedef struct comm {
    rg__comm base;
    rg__coll coll;
    uint64_t bytes, at; /* of the copy */
} comm;

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
    const rg_status st = open_comm(&c);
    if (st == RG_OK)
        *comm_p = &c->base;
    return st;
}

static rg_status self_split(rg__comm *world, const int *ranks, int n,
                            uint32_t id, rg__comm **comm_p)
{
    (void)world;
    (void)id;
    if (n != 1 || ranks[0] != 0)
        return rg__fail(RG_ERR_INVALID,
                        "transport self has no set but the one of rank 0");
    comm *c = NULL;
    const rg_status st = open_comm(&c);
    if (st == RG_OK)
        *comm_p = &c->base;
    return st;
}

static rg_status self_start(rg__comm *base, const rg__coll *coll)
{
    comm *c = (comm *)base;
    if (coll->kind > RG__AGREE || coll->type > RG_F64 || coll->op > RG_MAX ||
        coll->prescale != 0 || coll->postscale != 0)
        return rg__fail(RG_ERR_UNSUPPORTED,
                        "this transport has not got this operation, type or op "
                        "yet");
    c->coll = *coll;
    c->at = 0;
    c->bytes = coll->count * rg_type_size(coll->type);
    if (coll->kind == RG__BROADCAST || coll->kind == RG__BARRIER ||
        coll->send == coll->recv)
        c->bytes = 0;
    return RG_OK;
}

static rg_status self_test(rg__comm *base)
{
    comm *c = (comm *)base;
    const uint64_t left = c->bytes - c->at;
    const size_t now =
        left < RG__WORK_BYTES ? (size_t)left : (size_t)RG__WORK_BYTES;
    if (now > 0)
        memcpy((char *)c->coll.recv + c->at, (const char *)c->coll.send + c->at,
               now);
    c->at += now;
    base->moves++;
    return c->at == c->bytes ? RG_OK : RG_IN_PROGRESS;
}

static rg__bell *self_bell(rg__comm *world)
{
    (void)world;
    return NULL;
}

static void self_close(rg__comm *base)
{
    free(base);
}

const rg__transport rg__transport_self = {.size = sizeof(rg__transport),
                                          .name = "self",
                                          .open = self_open,
                                          .split = self_split,
                                          .start = self_start,
                                          .test = self_test,
                                          .bell = self_bell,
                                          .close = self_close};
