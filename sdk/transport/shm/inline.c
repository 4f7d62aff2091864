/* Data that fits the mailbox or a small slot: published before the descriptor,
 * read once all descriptors are there. No second barrier (parity slots). Ranks
 * are added in order 0 .. n-1, so that all members get equal bits. */
#include "sdk/base/copy.h"
#include "sdk/transport/shm/shm_comm.h"
#include "sdk/transport/reduce.h"

typedef const char *(*source_fn)(const rg__native *c, int m);

static const char *from_descriptor(const rg__native *c, int m)
{
    return c->posting[m].data;
}

static const char *from_slot(const rg__native *c, int m)
{
    return rg__shm_small(c, m);
}

/* The data that this member publishes; NULL: none. */
static const void *published(const rg__native *c)
{
    if (c->coll.kind != RG__BROADCAST)
        return c->coll.send;
    return c->root == c->rank ? c->coll.recv : NULL;
}

void rg__inline_publish(rg__native *c)
{
    rg__posting *mine = &c->member[c->rank].mailbox->entry[c->ops & 1].posting;
    const void *data = published(c);
    if (!rg__shm_stays(c) && rg__kind_deals(c->coll.kind))
        return; /* nothing for members on this host */
    if (c->bytes > INLINE_BYTES)
        rg__zero_copy_describe(c, &mine->at);
    if (data == NULL || c->bytes == 0)
        return;
    if (c->bytes <= INLINE_BYTES)
        rg__copy(mine->data, data, c->bytes);
    else if (c->bytes <= SMALL_BYTES)
        rg__copy(rg__shm_small(c, c->rank), data, c->bytes);
}

/* of: see rg__combine. */
static void add_up(const rg__native *c, source_fn source, void *sum, int of)
{
    const void *src[RG__SOURCES_MAX];
    for (int m = 0; m < c->n; m++)
        src[m] = source(c, m);
    rg__combine(&c->coll, sum, src, c->n, (size_t)c->coll.count, of);
}

static void add_my_part_up(const rg__native *c, source_fn source)
{
    const void *src[RG__SOURCES_MAX];
    uint64_t begin, end;
    rg__shm_part(c, c->rank, &begin, &end);
    for (int m = 0; m < c->n; m++)
        src[m] = source(c, m) + begin;
    rg__combine(&c->coll, c->coll.recv, src, c->n,
                (size_t)(end - begin) / rg_type_size(c->coll.type), c->n);
}

static rg_status read_all(rg__native *c, source_fn source)
{
    char *recv = c->coll.recv;
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        add_up(c, source, recv, c->n);
        break;
    case RG__REDUCE:
        if (c->root == c->rank)
            add_up(c, source, recv, c->n);
        break;
    case RG__REDUCE_SCATTER:
    case RG__REDUCE_SCATTERV:
        add_my_part_up(c, source);
        break;
    case RG__BROADCAST:
        if (c->root != c->rank)
            rg__copy(recv, source(c, c->root), c->bytes);
        break;
    case RG__ALLGATHER:
        for (int m = 0; m < c->n; m++)
            rg__copy(recv + (uint64_t)m * c->bytes, source(c, m), c->bytes);
        break;
    default:
        break;
    }
    c->base.moves++;
    return RG_OK;
}

const char *rg__inline_of(const rg__native *c, int m)
{
    return c->bytes <= INLINE_BYTES ? from_descriptor(c, m) : from_slot(c, m);
}

void rg__inline_sum(const rg__native *c, void *sum)
{
    add_up(c, c->bytes <= INLINE_BYTES ? from_descriptor : from_slot, sum,
           -c->set_n);
}

rg_status rg__inline_descriptors(rg__native *c)
{
    return read_all(c, from_descriptor);
}

rg_status rg__inline_slots(rg__native *c)
{
    return read_all(c, from_slot);
}
