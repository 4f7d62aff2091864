/* A comm whose members are on several hosts.
 *
 * An operation begins as on one host: each member posts its line. Lane 0 of
 * each host makes a block of the local lines, and the lanes 0 exchange blocks
 * until each has all of them (exchange.c); then lane 0 tells the local members
 * the verdict (verdict.c). So no operation ends well before what all have said
 * has come round. Where the data are, by what they have said:
 *
 *   small    in lane 0's block; lane 0 computes the result for all
 *   medium   in the blocks that all lanes exchange at the same time; lane k
 *            computes slice k                                      (allreduce)
 *   large    behind the verdict, lane k of all hosts has slice k   (crossing.c)
 *
 * Choices are pure functions of the lines and of where the members are; which
 * memory is used inside a host is each host's own choice. */
#ifndef RG_NATIVE_ACROSS_H
#define RG_NATIVE_ACROSS_H

#include "sdk/transport/native/native.h"

#define ROUNDS_MAX  16
#define MEMBERS_MAX 2048
#define SMALL_ALL   ((uint64_t)64 << 10) /* small data of all, at most */
#define MEDIUM_ALL  ((uint64_t)512 << 10)

typedef enum reach { SMALL, MEDIUM, LARGE } reach;

typedef struct exchange {
    int rounds;
    rg__link *to[ROUNDS_MAX], *from[ROUNDS_MAX];
    char *store; /* blocks of my host and those behind it; owned */
    size_t room, stored;
    size_t *begin; /* of each block in the store; owned */
    int blocks;    /* whole ones in the store */
    int round;
    bool has_begun, has_sent;
    bool is_complete; /* all blocks are here, and mine has gone out */
    bool differs;     /* a block in the store has different lines */
    size_t arrived;   /* bytes of the incoming body */
} exchange;

typedef struct part { /* of the frames of one step: how many have gone */
    uint32_t sent, received;
} part;

typedef struct crossing {
    rg__link *next, *prev; /* of my lane; NULL: I have none */
    char *scratch;         /* what is to be added; owned */
    size_t step_bytes;
    bool is_direct; /* the data are in rg_alloc memory on this host */
    bool may_begin; /* nothing old is on the links any more */

    uint32_t ready;       /* steps that may cross */
    uint32_t crossed;     /* steps that have */
    part part[STAGES];    /* of those between */
    uint32_t parts, lag;  /* frames per step; part i leaves when i + lag have
                             come */
    bool sends, receives; /* does this host, in this operation? */
    uint32_t sending_step;
    size_t moved;        /* bytes, in this call */
    uint64_t awaited;    /* parts that are still to come */
    size_t arrived;      /* bytes of the incoming part */
    bool is_whole;       /* it is, and waits to be taken, */
    uint32_t whole_step; /* of this step */
} crossing;

struct across {
    spread spread;
    int links;
    rg__link **link; /* owned, each once */
    verdict *verdict;
    reach reach;        /* of the operation in flight */
    bool has_differed;  /* some operation has: frames of it may still come */
    said_line *line;    /* of all members, by set rank; owned */
    bool is_running;    /* an operation is in flight */
    uint64_t moves;     /* of the comm, when it last looked at its sockets; */
    uint64_t looked_ns; /* when that was */
    exchange exchange;
    crossing crossing;
};

/* across.c; ranks: in the world. */
rg_status rg__across_open(comm *c, spread *s, const int *ranks);
void rg__across_close(comm *c);
void rg__across_begin(comm *c);
void rg__across_end(comm *c);
void rg__across_poll(comm *c);
/* What advances an operation when all local lines are read. */
advance_fn rg__across_choose(const comm *c);

/* Set ranks of other hosts that the operation waits for. */
int rg__across_awaited(const comm *c, int *ranks, int room);
/* One of them has called rg_finalize, as far as it is known here. */
bool rg__across_has_left(const comm *c, int member);

/* My lane's next frame from there that is not of an operation that differed. */
const frame *rg__across_head(comm *c, rg__link *link);

/* exchange.c */
void rg__exchange_begin(comm *c);
/* Go on; OK: all blocks are here. */
rg_status rg__exchange(comm *c);
/* Has all gone out of the store? A frame of an operation that differed may
 * still be on its way. */
bool rg__exchange_is_free(const comm *c);
/* What all members have said, into across->line. */
void rg__exchange_note_lines(comm *c);
/* A host's data; NULL: not as many bytes as its lines say. */
const char *rg__exchange_data(const comm *c, int host);

/* verdict.c */
reach rg__verdict_reach(const comm *c);
uint32_t rg__verdict_data_bytes(const comm *c, int host); /* in its block */
void rg__verdict_fill(const comm *c, char *data);         /* my host's */
void rg__verdict_publish(comm *c);
/* These advance an operation until its verdict is there and set what does
 * from then on: for lane 0, for who exchanges beside it, for all others. */
rg_status rg__verdict_find(comm *c);
rg_status rg__verdict_find_beside(comm *c);
rg_status rg__verdict_await(comm *c);

/* crossing.c */
void rg__crossing_begin(comm *c);
/* Where a step's data begin for a lane of this host, the part of it that the
 * lane carries, and where a lane has the slices of a host's members
 * (allgather). */
char *rg__crossing_data(const comm *c, int lane, uint32_t step);
void rg__crossing_slice(const comm *c, uint32_t step, int lane, size_t *begin_p,
                        size_t *end_p);
char *rg__crossing_slices(const comm *c, int lane, uint32_t step, int host);

/* ring.c */
void rg__ring_begin(comm *c);
/* Send and receive what can be, and post what has crossed. */
void rg__ring_turn(comm *c);

#endif
