/* A comm whose members are on several hosts.
 *
 * An operation begins as on one host: each member posts its line. Lane 0 of
 * each host makes a block of the local lines, and of the small data, and the
 * lanes 0 exchange blocks until each has all of them (exchange.c); then lane 0
 * tells the local members the verdict, with the small result. So no operation
 * ends well before what all have said has come round. Large operations follow,
 * with all lanes in parallel (crossing.c): lane k of every host owns slice k.
 *
 * Choices are pure functions of the lines and of where the members are. */
#ifndef RG_NATIVE_ACROSS_H
#define RG_NATIVE_ACROSS_H

#include "sdk/transport/native/native.h"

#define ROUNDS_MAX  16
#define MEMBERS_MAX 2048
#define SMALL_ALL   ((uint64_t)64 << 10) /* small data of all, at most */

typedef struct exchange {
    int rounds;
    rg__link *to[ROUNDS_MAX], *from[ROUNDS_MAX];
    char *store; /* blocks of my host and those behind it; owned */
    size_t room, stored;
    size_t *begin; /* of each block in the store; owned */
    int blocks;    /* whole ones in the store */
    int round;
    bool has_begun, has_sent;
    bool differs;   /* a block in the store has different lines */
    size_t arrived; /* bytes of the incoming body */
} exchange;

typedef struct part { /* of the frames of one step: how many have gone */
    uint32_t sent, received;
} part;

typedef struct crossing {
    rg__link *next, *prev; /* of my lane; NULL: I have none */
    size_t step_bytes;
    uint32_t ready;   /* steps that may cross */
    uint32_t crossed; /* steps that have */
    part part[STAGES];
    uint32_t parts, lag;  /* frames per step; part i leaves after part i + lag
                             has come */
    bool sends, receives; /* does this host, in this operation? */
    uint32_t sending_step;
    uint64_t awaited; /* parts that are still to come */
    size_t arrived;   /* bytes of the incoming part */
    char *scratch;    /* owned */
} crossing;

struct across {
    spread spread;
    int links;
    rg__link **link; /* owned, each once */
    verdict *verdict;
    said_line *line; /* of all members, by set rank; owned */
    bool is_running; /* an operation is in flight */
    uint64_t moves;  /* of the comm, when it was tested last; since then it */
    uint32_t looks;  /* was tested so often in vain */
    exchange exchange;
    crossing crossing;
};

/* across.c; ranks: in the world. */
rg_status rg__across_open(comm *c, spread *s, const int *ranks);
void rg__across_close(comm *c);
void rg__across_begin(comm *c);
void rg__across_end(comm *c);
void rg__across_poll(comm *c);

/* exchange.c: from here on the operation is advanced by what these set. */
rg_status rg__exchange(comm *c);
rg_status rg__exchange_await(comm *c);

/* crossing.c */
rg_status rg__crossing_allreduce(comm *c);
rg_status rg__crossing_broadcast(comm *c);
rg_status rg__crossing_allgather(comm *c);
void rg__crossing_begin(comm *c);

#endif
