/* Where the members of a set are: its hosts, in the order of their first
 * members, and on each host the members in set order. Lane k of a host is its
 * k-th member; there are as many lanes as the smallest host has members. All
 * members compute the same from the same set. */
#ifndef RG_NATIVE_SPREAD_H
#define RG_NATIVE_SPREAD_H

#include "sdk/transport/transport.h"

typedef struct spread {
    int n, hosts, lanes;
    int host;     /* mine */
    int *host_of; /* by set rank */
    int *at;      /* set ranks, host by host */
    int *begin;   /* hosts + 1: where each host begins in `at` */
} spread;

/* ranks: in the world, by set rank; host: by world rank. */
rg_status rg__spread_make(spread *s, const int *ranks, int n,
                          const uint32_t *host, int my_rank);
void rg__spread_clear(spread *s);

static inline int rg__spread_size(const spread *s, int host)
{
    return s->begin[host + 1] - s->begin[host];
}

/* The set rank of a host's k-th member. */
static inline int rg__spread_member(const spread *s, int host, int k)
{
    return s->at[s->begin[host] + k];
}

/* The host that is d places behind `host`. */
static inline int rg__spread_after(const spread *s, int host, int d)
{
    return (int)(((int64_t)host + d + s->hosts) % s->hosts);
}

#endif
