/* The data of a small or medium operation over several hosts: which size class
 * they are, and what a host's block holds of them. */
#include "sdk/transport/inter/inter.h"

#include "sdk/base/copy.h"
#include "sdk/transport/reduce.h"

/* The most bytes of small data that a member may have. A member that is alone
 * on its host needs no slot: its data are read where they are. */
static uint64_t slot_bytes(const rg__topology *s, bool is_sum)
{
    return rg__topology_is_flat(s) && !is_sum ? SMALL_ALL : SMALL_BYTES;
}

static const char *small_of(const rg__native *c, int m, const void *mine)
{
    return m == c->rank ? mine : rg__inline_of(c, m);
}

rg__size_class rg__payload_class(const rg__native *c)
{
    const rg__topology *s = &c->inter->topology;
    const bool is_sum =
        c->coll.kind == RG__ALLREDUCE || c->coll.kind == RG__AGREE;
    const uint64_t hosts = (uint64_t)s->hosts;
    if (rg__kind_deals(c->coll.kind))
        return SMALL;
    if (c->coll.kind == RG__REDUCE)
        return LARGE;
    const uint64_t shares = c->coll.kind == RG__ALLGATHER ? (uint64_t)s->n
                            : is_sum                      ? hosts
                                                          : 1;
    if (c->bytes <= slot_bytes(s, is_sum) && c->bytes * shares <= SMALL_ALL)
        return SMALL;
    const uint64_t sent = rg__topology_pairs(s) ? c->bytes : c->bytes * hosts;
    return is_sum && c->bytes <= MEDIUM_BYTES && sent <= MEDIUM_ALL ? MEDIUM
                                                                    : LARGE;
}

void rg__payload_slice(const rg__native *c, int rail, size_t *begin_p,
                       size_t *end_p)
{
    rg__vault_slice((size_t)c->bytes, (uint32_t)rail,
                    (uint32_t)c->inter->topology.rails, begin_p, end_p);
}

uint32_t rg__payload_bytes(const rg__native *c, int host)
{
    const rg__topology *s = &c->inter->topology;
    size_t begin, end;
    if (c->inter->size_class == LARGE || c->bytes == 0)
        return 0;
    if (c->inter->size_class == MEDIUM) {
        rg__payload_slice(c, c->rank, &begin, &end);
        return (uint32_t)(end - begin);
    }
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
    case RG__REDUCE_SCATTER:
    case RG__ALLTOALL:
        return (uint32_t)c->bytes;
    case RG__BROADCAST:
    case RG__SCATTER:
        return s->host_of[c->coll.root] == host ? (uint32_t)c->bytes : 0;
    case RG__ALLGATHER:
        return (uint32_t)c->bytes * (uint32_t)rg__topology_size(s, host);
    default:
        break;
    }
    return 0;
}

uint32_t rg__payload_share(const rg__native *c, int host)
{
    const uint32_t bytes = rg__payload_bytes(c, host);
    return rg__kind_deals(c->coll.kind)
               ? bytes / (uint32_t)c->inter->topology.hosts
               : bytes;
}

/* Publish what other rails here need; my own slice is read in place. */
void rg__payload_publish(rg__native *c)
{
    if (c->inter->size_class != MEDIUM)
        return;
    const char *data = c->coll.send;
    char *slot = rg__shm_medium(c, c->rank);
    size_t begin = 0, end = 0;
    if (c->rank < c->inter->topology.rails)
        rg__payload_slice(c, c->rank, &begin, &end);
    rg__copy(slot, data, begin);
    rg__copy(slot + end, data + end, c->bytes - end);
}

static const char *contribution(const rg__native *c, int m)
{
    return m == c->rank ? (const char *)c->coll.send : rg__shm_medium(c, m);
}

static void sum_slices(const rg__native *c, char *sum)
{
    const void *src[RG__SOURCES_MAX];
    size_t begin, end;
    rg__payload_slice(c, c->rank, &begin, &end);
    for (int m = 0; m < c->n; m++)
        src[m] = contribution(c, m) + begin;
    rg__combine(&c->coll, sum, src, c->n,
                (end - begin) / rg_type_size(c->coll.type), -c->set_n);
}

/* The part for each host: first for those whose number has bit 0 clear, and
 * among each half likewise by bit 1 and so on. */
static void fill_parts(const rg__native *c, char *data)
{
    const rg__topology *s = &c->inter->topology;
    const uint64_t part = c->bytes / (uint64_t)s->hosts;
    for (int i = 0; i < s->hosts; i++, data += part) {
        int host = 0;
        for (int bit = 1; bit < s->hosts; bit *= 2)
            host = 2 * host + ((i & bit) != 0);
        const void *from = (const char *)c->coll.send +
                           (uint64_t)rg__topology_member(s, host, 0) * part;
        if (c->coll.kind == RG__REDUCE_SCATTER)
            rg__combine(&c->coll, data, &from, 1, (size_t)c->coll.count,
                        -c->set_n);
        else
            rg__copy(data, from, (size_t)part);
    }
}

void rg__payload_fill(const rg__native *c, char *data)
{
    switch (c->coll.kind) {
    case RG__ALLREDUCE:
    case RG__AGREE:
        if (c->inter->size_class == MEDIUM)
            sum_slices(c, data);
        else
            rg__inline_sum(c, data);
        break;
    case RG__REDUCE_SCATTER:
    case RG__SCATTER:
    case RG__ALLTOALL:
        fill_parts(c, data);
        break;
    case RG__BROADCAST:
        rg__copy(data, small_of(c, c->root, c->coll.recv), c->bytes);
        break;
    case RG__ALLGATHER:
        for (int m = 0; m < c->n; m++)
            rg__copy(data + (size_t)m * c->bytes, small_of(c, m, c->coll.send),
                     c->bytes);
        break;
    default:
        break;
    }
}
