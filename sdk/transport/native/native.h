/* Inside the native transport: a comm in the shared memory of one host, or over
 * several hosts with shared memory inside each (across.h).
 *
 * Every operation begins with the members' lines: each posts its own in start,
 * and test reads all of them, which is the first barrier. What follows is a
 * pure function of the lines, so all members choose alike:
 *
 *   lines differ                               ERR_MISMATCH, nothing written
 *   no data                                    done
 *   a gather, scatter, alltoall                                     (pairs.c)
 *   fits a line                                read the lines       (small.c)
 *   <= SMALL_BYTES                             read the small slots (small.c)
 *   all in rg_alloc memory (broadcast: root;   read there           (direct.c)
 *   reduce: all and the root)
 *   otherwise                                  through staging      (staged.c)
 *
 * Two parity slots per line are enough: a member rewrites a slot in operation
 * q + 2, after it saw every line of q + 1, and a member posts q + 1 only after
 * it has finished q. Algorithms that move data in steps do not rely on that;
 * they wait for the flags. */
#ifndef RG_NATIVE_H
#define RG_NATIVE_H

#include "sdk/transport/native/net.h"
#include "sdk/transport/native/spread.h"

/* The mapped segment and who is in it; the world's comm owns it. */
typedef struct shared {
    char *at;
    layout layout;
    int rank, size, local_size;
    rg__member_id *member; /* by rank; owned, as what follows */
    uint32_t *host;        /* by rank */
    int *local_rank;       /* by rank: on its host */
    const rg__mappings *mappings;
    rg__net *net; /* owned; NULL: all on one host */
} shared;

typedef struct member {
    int rank; /* in the world */
    member_lines *lines;
    char *small;   /* two parity slots */
    char *medium;  /* likewise */
    char *staging; /* STAGES slots */
    rg__bell *bell;
    char *from, *to;    /* rg_alloc memory in this process (direct.c) */
    uint32_t lacks_map; /* operation whose memory has not arrived here; 0 */
} member;

typedef struct across across;
typedef struct pairs pairs;
typedef struct compose compose;

typedef struct comm comm;
typedef rg_status (*advance_fn)(comm *c);

struct comm {
    rg__comm base;
    shared *shared;
    uint32_t id;
    int set_rank, set_n; /* in the set */
    int rank, n;         /* among its members on this host */
    member *member;      /* n of them; owned */
    said *said;          /* copies of the members' lines; owned */
    across *across;      /* owned; NULL: all members are on this host */
    pairs *pairs;        /* owned; NULL: no operation needed it yet, */
    compose *compose;    /* likewise */

    uint32_t ops;   /* operations begun, over the comm's life */
    uint32_t steps; /* steps of the operations before this one */

    rg__coll coll;      /* what is in flight: what was started, or a part */
    rg__coll user;      /* of this, which is composed */
    bool has_begun;     /* something is */
    int root;           /* among the local members, -1: elsewhere */
    uint64_t bytes;     /* of one member's data */
    int heard;          /* members whose line was read */
    advance_fn advance; /* NULL until all lines are read */

    uint32_t in, out, done; /* steps of this operation finished by me */
    uint32_t last;          /* how many it has */
    uint64_t at;            /* position within the current step */
    int peer;               /* likewise */
};

/* open.c */
rg_status rg__native_open(const rg__boot *boot, rg__comm **comm_p);
rg_status rg__native_split(rg__comm *world, const int *ranks, int n,
                           uint32_t id, rg__comm **comm_p);
void rg__native_close(rg__comm *base);

/* Of a world rank on this host. */
static inline bell_line *rg__native_bell_line(const shared *sh, int rank)
{
    return &((bell_line *)(void *)sh->at)[sh->local_rank[rank]];
}

/* native.c: post the line of an operation; index: of the part of c->user,
 * from 1. */
void rg__native_begin(comm *c, const rg__coll *coll, uint64_t index);

typedef enum flag { FLAG_IN, FLAG_OUT, FLAG_DONE } flag;
void rg__native_post(comm *c, flag which, uint32_t step);
/* The same step for all three flags, at the end of an operation. */
void rg__native_post_end(comm *c);
bool rg__native_all_posted(const comm *c, flag which, uint32_t step);
bool rg__native_posted(const comm *c, int m, flag which, uint32_t step);
void rg__native_ring(comm *c);
static inline char *rg__native_small(const comm *c, int m)
{
    return c->member[m].small + (c->ops & 1) * SMALL_BYTES;
}

/* Kinds that add up; those of them of which each keeps a part. */
bool rg__native_adds(rg__kind kind);
bool rg__native_scatters(rg__kind kind);
/* Of the latter: bytes [*begin_p, *end_p) of what is sent are member m's. */
void rg__native_part(const comm *c, int m, uint64_t *begin_p, uint64_t *end_p);

/* small.c */
void rg__native_publish(comm *c);
/* The sum of the local members' small data, in order: a part of the set's. */
void rg__native_small_sum(const comm *c, void *sum);
const char *rg__native_small_of(const comm *c, int m);
rg_status rg__native_inline(comm *c);
rg_status rg__native_small_read(comm *c);

/* direct.c */
bool rg__native_is_direct(const comm *c);
/* Where members' memory is in this process: `from` is what they send, `to` what
 * they receive into; IN_PROGRESS while it has not arrived. */
rg_status rg__native_locate_all(comm *c);
rg_status rg__native_locate_to(comm *c, int m);
void rg__native_say_where(const comm *c, where *w);
/* The same for what is sent alone, of that many bytes. */
void rg__native_say_send(const comm *c, uint64_t bytes, where *w);
/* Where bytes of what m sends are, `at` behind its begin. */
rg_status rg__native_locate_part(const comm *c, int m, uint64_t at,
                                 uint64_t bytes, const char **from_p);
rg_status rg__native_direct_allreduce(comm *c); /* and the other reductions */
rg_status rg__native_direct_broadcast(comm *c);
rg_status rg__native_direct_allgather(comm *c);

/* staged.c */
rg_status rg__native_staged_allreduce(comm *c);
rg_status rg__native_staged_reduce_scatter(comm *c);
rg_status rg__native_staged_broadcast(comm *c);
rg_status rg__native_staged_allgather(comm *c);

#endif
