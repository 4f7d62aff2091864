/* Gathers, scatters, alltoalls and reduce_scatters with equal and with unequal
 * counts, and reduces, whose every element is known. They are large, unless the
 * caller makes equal counts small. The root is the last rank. */
#ifndef TESTS_TRANSPORT_PARTS_H
#define TESTS_TRANSPORT_PARTS_H

#include "tests/lib/world.h"

typedef enum parts_kind {
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLTOALL,
    ALLTOALLV,
    IN_PLACE,
    REDUCE_SCATTER,
    REDUCE_SCATTERV,
    REDUCE,
    KINDS
} parts_kind;

typedef struct parts {
    rg_set *set;
    int n, rank;
    int64_t *send, *recv; /* of alltoalls in place: recv alone */
    uint64_t even;        /* elements of each part with equal counts */
    uint64_t fewer;       /* elements that this rank leaves out of each part */
} parts;

parts parts_create(const world *w);
void parts_destroy(parts *p);

/* Are the counts of this kind equal? */
bool parts_are_even(parts_kind k);
/* Elements from one rank to another; if large, more than 200 KB where there are
 * any. Some of a reduce_scatter, and of uneven ones, are none. */
uint64_t parts_count(const parts *p, parts_kind k, int from, int to);

/* New data to send, and nothing received. */
void parts_fill(const parts *p, parts_kind k);
void parts_start(const parts *p, parts_kind k, rg_req **req_p);
/* What has been received is right. */
void parts_check(const parts *p, parts_kind k);
/* Of all that can be received. */
uint64_t parts_hash(const parts *p);

#endif
