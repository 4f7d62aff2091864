/* Data of gathers, scatters, alltoalls and reduce_scatters that go straight
 * from one member to another one on a different host (pairs.c). */
#ifndef RG_INTER_PAIRS_H
#define RG_INTER_PAIRS_H

#include "sdk/transport/inter/inter.h"

/* What I send to a member, and receive from it. If out is in, arriving data
 * replace sent data. The caller keeps the memory until the round ends. */
typedef struct rg__pair {
    int member; /* set rank */
    const char *out;
    char *in;
    uint64_t out_bytes, in_bytes;

    rg__link *link;
    uint64_t sent, received; /* bytes; sent counts whole frames only */
    uint32_t frames_out, frames_in;
} rg__pair;

/* A new round: all members make the same rounds, in which each adds its pairs
 * in the order of the turns in which members (or their hosts) meet. */
rg_status rg__pairs_begin(rg__native *c, int most);
/* Only pairs between which something moves are kept. */
rg_status rg__pairs_add(rg__native *c, const rg__pair *pair);
/* Send and receive what is possible. */
void rg__pairs_turn(rg__native *c);
bool rg__pairs_is_running(const rg__native *c);
void rg__pairs_end(rg__native *c); /* whether or not the round is done */
/* The members that the round waits for. */
int rg__pairs_awaited(const rg__native *c, int *ranks, int room);
void rg__pairs_free(rg__native *c);

#endif
