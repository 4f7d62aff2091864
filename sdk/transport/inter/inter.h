/* A comm whose members are on several hosts.
 *
 * An operation begins as on one host: each member posts its descriptor. Rail 0
 * of each host makes a block of the local ones, and all rails 0 exchange blocks
 * until each has all of them (exchange.c); then rail 0 tells the local members
 * the verdict (verdict.c). So no operation ends well before all descriptors
 * have come round. Where the data travel depends on their size:
 *
 *   small    in rail 0's block; rail 0 computes the result for all
 *   medium   in the blocks that all rails exchange at the same time; rail k
 *            computes slice k                                      (allreduce)
 *   large    after the verdict, rail k of all hosts has slice k    (pipeline.c)
 *
 * Choices are pure functions of the descriptors and of where the members are;
 * which memory is used inside a host is each host's own choice. */
#ifndef RG_INTER_H
#define RG_INTER_H

#include "sdk/transport/inter/topology.h"
#include "sdk/transport/shm/shm_comm.h"

#define ROUNDS_MAX  16
#define MEMBERS_MAX 2048
#define SMALL_ALL   ((uint64_t)64 << 10) /* most bytes of all small data */
#define MEDIUM_ALL  ((uint64_t)512 << 10)

typedef struct rg__pairs rg__pairs;

typedef enum rg__size_class { SMALL, MEDIUM, LARGE } rg__size_class;

typedef struct rg__blocks {
    char *at; /* owned */
    size_t room;
} rg__blocks;

typedef struct rg__exchange {
    int rounds;
    rg__link *to[ROUNDS_MAX], *from[ROUNDS_MAX];
    rg__blocks store;  /* those of my host and of those after it */
    rg__blocks halved; /* what goes to my partner, if data are halved */
    size_t stored;
    size_t *begin; /* of each block in the store; owned */
    int blocks;    /* complete ones in the store */
    int round;
    bool has_begun, has_sent;
    bool is_complete; /* all blocks are here, and mine has been sent */
    bool differs;     /* descriptors within a stored block differ */
    bool halves;      /* what was sent last was halved */
    size_t arrived;   /* bytes of the incoming body */
} rg__exchange;

typedef struct rg__step_parts { /* how many frames of one step have been
                                   exchanged */
    uint32_t sent, received;
} rg__step_parts;

typedef struct rg__pipeline {
    rg__link *next, *prev; /* on my rail; NULL: I am no rail */
    char *scratch;         /* received data that are to be added; owned */
    bool is_zero_copy;     /* data are read and written in place on this host */
    bool may_begin; /* no frame of an earlier operation is left to be sent */

    uint32_t ready;              /* steps that may cross */
    uint32_t crossed;            /* steps that have crossed */
    rg__step_parts part[STAGES]; /* of the steps between */
    uint32_t parts, lag;         /* frames per step; part i is sent when i + lag
                             have come */
    bool sends, receives; /* does this host send, receive, in this operation? */
    uint32_t sending_step;
    size_t moved;        /* bytes, in this call */
    uint64_t awaited;    /* parts still to come */
    size_t arrived;      /* bytes of the incoming part */
    bool is_whole;       /* the part is complete, and waits to be taken */
    uint32_t whole_step; /* which step the complete part belongs to */
} rg__pipeline;

struct rg__inter {
    rg__topology topology;
    int *world_rank; /* world ranks by set rank; owned */
    int links;
    rg__link **link;    /* owned, each once */
    rg__link **link_to; /* the same links, by set rank; NULL: none yet; owned */
    uint32_t ops;       /* operations across hosts so far; in frames */
    rg__exchange_verdict *verdict;
    rg__size_class size_class; /* of the operation in flight */
    bool has_differed;         /* an operation has; its frames may still come */
    rg__descriptor *descriptor; /* of all members, by set rank; owned */
    bool is_running;            /* an operation is in flight */
    uint64_t moves;             /* base.moves at the last look at the sockets */
    uint64_t looked_ns;         /* when that look was */
    rg__exchange exchange;
    rg__pipeline pipeline;
    rg__pairs *pairs; /* owned; NULL: none yet */
};

/* inter.c; ranks: world ranks. */
rg_status rg__inter_open(rg__native *c, rg__topology *s, const int *ranks);
void rg__inter_close(rg__native *c);
/* The link to a member on another host. It is made when first asked for, by
 * both ends in the same operation. */
rg_status rg__inter_link(rg__native *c, int member, rg__link **link_p);
void rg__inter_begin(rg__native *c);
void rg__inter_end(rg__native *c);
void rg__inter_poll(rg__native *c);
/* What advances an operation once all local descriptors are read. */
rg__advance_fn rg__inter_choose(const rg__native *c);

/* Set ranks of other hosts that the operation waits for. */
int rg__inter_awaited(const rg__native *c, int *ranks, int room);
/* Is it known here that this member has called rg_finalize? */
bool rg__inter_has_left(const rg__native *c, int member);

/* exchange.c */
void rg__exchange_begin(rg__native *c);
/* Continue the exchange; OK: all blocks are here. */
rg_status rg__exchange_go_on(rg__native *c);
/* Has everything in the store been sent? A frame of an operation that differed
 * may still be on its way. From then on *may_begin is true. */
bool rg__exchange_lets_begin(const rg__native *c, bool *may_begin);
/* The next frame on a link, without those of operations that differed. */
const rg__frame *rg__exchange_head(rg__native *c, rg__link *link);
/* Are data added up on their way? Then my host's are the sum of all. */
bool rg__exchange_adds(const rg__native *c);
/* Copy the descriptors of all members into inter->descriptor. */
void rg__exchange_collect(rg__native *c);
/* A host's data; NULL: not as long as its descriptors announce. */
const char *rg__exchange_data(const rg__native *c, int host);

/* payload.c */
rg__size_class rg__payload_class(const rg__native *c);
uint32_t rg__payload_bytes(const rg__native *c, int host); /* in its block */
uint32_t rg__payload_share(const rg__native *c, int host); /* at the end */
void rg__payload_fill(const rg__native *c, char *data);    /* my host's data */
void rg__payload_publish(rg__native *c);
/* Medium: the part of a slot that a rail computes. */
void rg__payload_slice(const rg__native *c, int rail, size_t *begin_p,
                       size_t *end_p);

/* verdict.c */
/* Advance an operation until its verdict is there, then set its next function:
 * for rail 0, for the other rails, and for all other members. */
rg_status rg__verdict_find(rg__native *c);
rg_status rg__verdict_find_beside(rg__native *c);
rg_status rg__verdict_await(rg__native *c);

/* pipeline.c */
void rg__pipeline_begin(rg__native *c);

/* rails.c: where a step's data begin for a rail of this host, and where a rail
 * has the slices of a host's members (allgather). */
char *rg__step_data(const rg__native *c, int rail, uint32_t step);
char *rg__step_slices(const rg__native *c, int rail, uint32_t step, int host);

/* ring.c */
void rg__ring_begin(rg__native *c);
/* Send and receive what is possible, and post the steps that have crossed. */
void rg__ring_turn(rg__native *c);

#endif
