/* Where the members of a set are: its hosts, in the order of their first
 * members, and on each host the members in set order. Rail k of a host is its
 * k-th member; there are as many rails as the smallest host has members. All
 * members compute the same from the same set. */
#ifndef RG_INTER_TOPOLOGY_H
#define RG_INTER_TOPOLOGY_H

#include "sdk/transport/transport.h"

typedef struct rg__topology {
    int n, hosts, rails;
    int host;     /* index of my host */
    int *host_of; /* by set rank */
    int *at;      /* set ranks, host by host */
    int *begin;   /* hosts + 1: where each host begins in `at` */
} rg__topology;

/* ranks: in the world, by set rank; host: by world rank. */
rg_status rg__topology_make(rg__topology *s, const int *ranks, int n,
                            const uint32_t *host, int my_rank);
void rg__topology_clear(rg__topology *s);

static inline int rg__topology_size(const rg__topology *s, int host)
{
    return s->begin[host + 1] - s->begin[host];
}

/* The set rank of a host's k-th member. */
static inline int rg__topology_member(const rg__topology *s, int host, int k)
{
    return s->at[s->begin[host] + k];
}

/* Is each member alone on its host? */
static inline bool rg__topology_is_flat(const rg__topology *s)
{
    return s->n == s->hosts;
}

/* The host that is d places after `host`, in a circle. */
static inline int rg__topology_after(const rg__topology *s, int host, int d)
{
    return (int)(((int64_t)host + d + s->hosts) % s->hosts);
}

/* Can hosts exchange what they have in pairs, pairs of pairs, and so on? */
static inline bool rg__topology_pairs(const rg__topology *s)
{
    return (s->hosts & (s->hosts - 1)) == 0;
}

/* The i-th host in the order of its blocks here: mine, its partner, that pair's
 * partners ..; or mine and those after it. */
static inline int rg__topology_at(const rg__topology *s, int i)
{
    return rg__topology_pairs(s) ? s->host ^ i
                                 : rg__topology_after(s, s->host, i);
}

#endif
