/* Inside schedule.c and scatter.c: an operation that is made of parts. */
#ifndef RG_INTER_SCHEDULE_PARTS_H
#define RG_INTER_SCHEDULE_PARTS_H

#include "sdk/transport/inter/pairs.h"

typedef enum rg__phase {
    COUNTS, /* the counts of all members are gathered */
    AT_ONCE,
    COMPARE, /* descriptors alone */
    PARTS,
    OWN, /* what a member sends to itself is copied */
    OVER
} rg__phase;

typedef struct rg__scatter rg__scatter;

struct rg__schedule {
    bool is_running;
    rg__phase phase;
    uint64_t part;    /* parts made so far */
    rg__coll coll;    /* the newest of them */
    bool is_local;    /* it runs among this host's members only */
    bool is_taken;    /* it has been started */
    bool has_pairs;   /* the round of pairs has begun */
    int from;         /* the member whose data are broadcast */
    uint64_t at;      /* elements of its data that are done */
    uint64_t longest; /* longest stream, in bytes */
    uint64_t *counts; /* of all members, then mine; owned, like the next two */
    uint64_t *local;  /* counts and places among this host's members */
    char *scratch;
    uint64_t room;
    rg__scatter *scatter; /* NULL: none yet */
};

static inline size_t rg__element(const rg__native *c)
{
    return rg_type_size(c->user.type);
}

/* Scratch memory of so many bytes, of which nothing is kept. */
rg_status rg__schedule_room(rg__native *c, uint64_t bytes);
/* Begin a part among the members of this host. Returns IN_PROGRESS. */
rg_status rg__schedule_begin_local(rg__native *c, const rg__coll *part);

/* Elements in rank r's part of the data that a reduce_scatter sends. */
uint64_t rg__schedule_part_count(const rg__native *c, int r);

/* scatter.c: a large reduce_scatter, as rg__schedule_next. */
rg_status rg__scatter_next(rg__native *c);
void rg__scatter_free(rg__native *c);

#endif
