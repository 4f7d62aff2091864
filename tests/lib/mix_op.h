/* One operation of a mix: what each member brings, and what it must find in its
 * memory afterwards, byte for byte, the bytes around included. Threads: one for
 * each run at a time. Ownership: mix_run_prepare takes memory, mix_run_check
 * gives it back. Units: counts are elements. */
#ifndef TESTS_LIB_MIX_OP_H
#define TESTS_LIB_MIX_OP_H

#include <pthread.h>
#include <stdbool.h>

#include "regroup/regroup.h"
#include "tests/lib/dice.h"

#define MIX_MEMBERS 24

typedef enum mix_kind {
    MIX_ALLREDUCE,
    MIX_REDUCE,
    MIX_REDUCE_SCATTER,
    MIX_REDUCE_SCATTERV,
    MIX_BROADCAST,
    MIX_ALLGATHER,
    MIX_ALLGATHERV,
    MIX_GATHER,
    MIX_GATHERV,
    MIX_SCATTER,
    MIX_SCATTERV,
    MIX_ALLTOALL,
    MIX_ALLTOALLV,
    MIX_BARRIER,
    MIX_JOIN
} mix_kind;

/* What all members start alike. */
typedef struct mix_op {
    uint64_t seed; /* of its data */
    mix_kind kind;
    rg_type type;
    rg_op op;
    int root, n; /* members */
    double prescale, postscale;
    uint64_t count;    /* of each part; the largest if counts are uneven */
    bool is_symmetric; /* an alltoallv that may be in place */
    unsigned joined;   /* a bit for each member that has joined before it */
} mix_op;

/* Memory that others can map. It is given out from its beginning on, and again
 * once no part is in use. */
typedef struct mix_arena {
    pthread_mutex_t lock; /* guards what follows */
    char *at;
    size_t bytes, used;
    int live;
} mix_arena;

/* Memory of one buffer, and some bytes before and behind it. */
typedef struct mix_room {
    char *base; /* NULL: none */
    size_t bytes;
    mix_arena *arena; /* NULL: of malloc */
} mix_room;

/* Parts of one side of an operation; counts and places by member. */
typedef struct mix_part {
    uint64_t place, count, first; /* first: where it is in the whole */
    int from, to;                 /* from: -1: the sum of all members */
} mix_part;

typedef struct mix_side {
    mix_part part[MIX_MEMBERS];
    int parts;
    uint64_t counts[MIX_MEMBERS], places[MIX_MEMBERS];
    bool has_places;
    uint64_t end; /* elements from the begin of the buffer */
} mix_side;

/* One member's part in an operation. */
typedef struct mix_run {
    mix_op op;
    int rank;
    rg_status expected;
    int expected_last; /* of a join */
    char label[80];    /* where in the mix it is */

    rg_req *req;
    rg_status st; /* of the start */
    int last;
    bool is_in_place;
    int timeout_ms;
    mix_side out, in;
    mix_room send_room, recv_room; /* recv_room has no base when in place */
    char *send, *recv;
} mix_run;

extern const char *const mix_kind_names[];

/* Does it add up? Does it have a root? Do all its parts have one count? */
bool mix_adds(const mix_op *op);
bool mix_has_root(const mix_op *op);
bool mix_has_one_count(const mix_op *op);

/* An operation on n members with at most so many bytes in a buffer. */
void mix_op_draw(mix_op *op, dice *d, int n, size_t most);

/* Draw an allreduce of few types and ops, which groups can fuse. */
void mix_op_draw_small(mix_op *op, dice *d, int n);

/* Change it to an operation that differs for every member. */
void mix_op_vary(mix_op *op, dice *d);

/* Where the parts of what run sends and receives lie; has_places: where counts
 * are uneven, not one behind the other. */
void mix_lay_out(mix_run *run, bool has_places);
void mix_lay_in(mix_run *run, bool has_places);

/* Write a side's data, from the begin of its buffer on. */
void mix_paint(const mix_op *op, const mix_side *side, char *at);

/* run: zeroed but for op, rank, expected and label. The dice are this rank's
 * own. */
void mix_run_prepare(mix_run *run, dice *d, mix_arena *arena);
void mix_run_start(mix_run *run, rg_set *set);
/* Check an operation that has ended with that status. */
void mix_run_check(mix_run *run, rg_status st);

#endif
