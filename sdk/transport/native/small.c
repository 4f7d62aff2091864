/* Data that fits a line or a small slot: published before the line, read once
 * all lines are there. No second barrier (parity slots). Ranks are added in
 * order 0 .. n-1, so that all members have equal bits. */
#include <string.h>

#include "sdk/transport/native/native.h"
#include "sdk/transport/native/reduce.h"

typedef const char *(*source_fn)(const comm *c, int m);

static const char *from_line(const comm *c, int m)
{
    return c->said[m].data;
}

static const char *from_slot(const comm *c, int m)
{
    return rg__native_small(c, m);
}

/* What this member publishes, or NULL. */
static const void *published(const comm *c)
{
    if (c->coll.kind != RG__BROADCAST)
        return c->coll.send;
    return c->coll.root == c->rank ? c->coll.recv : NULL;
}

void rg__native_publish(comm *c)
{
    said *mine = &c->member[c->rank].lines->line[c->ops & 1].said;
    const void *data = published(c);
    if (c->bytes > INLINE_BYTES)
        rg__native_say_where(c, &mine->at);
    if (data == NULL || c->bytes == 0)
        return;
    if (c->bytes <= INLINE_BYTES)
        memcpy(mine->data, data, c->bytes);
    else if (c->bytes <= SMALL_BYTES)
        memcpy(rg__native_small(c, c->rank), data, c->bytes);
}

static void reduce(comm *c, source_fn source)
{
    const rg__coll *o = &c->coll;
    const size_t count = (size_t)o->count;
    if (c->n == 1)
        memcpy(o->recv, source(c, 0), c->bytes);
    else
        rg__reduce(o->type, o->op, o->recv, source(c, 0), source(c, 1), count);
    for (int m = 2; m < c->n; m++)
        rg__reduce(o->type, o->op, o->recv, o->recv, source(c, m), count);
    if (o->op == RG_AVG)
        rg__divide(o->type, o->recv, count, c->n);
}

static rg_status read_all(comm *c, source_fn source)
{
    char *recv = c->coll.recv;
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        reduce(c, source);
        break;
    case RG__BROADCAST:
        if (c->coll.root != c->rank)
            memcpy(recv, source(c, c->coll.root), c->bytes);
        break;
    case RG__ALLGATHER:
        for (int m = 0; m < c->n; m++)
            memcpy(recv + (uint64_t)m * c->bytes, source(c, m), c->bytes);
        break;
    case RG__BARRIER:
        break;
    }
    c->base.moves++;
    return RG_OK;
}

rg_status rg__native_inline(comm *c)
{
    return read_all(c, from_line);
}

rg_status rg__native_small_read(comm *c)
{
    return read_all(c, from_slot);
}
