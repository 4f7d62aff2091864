/* Inside the native transport: a comm in the shared memory of one host, or over
 * several hosts with shared memory inside each (inter/inter.h).
 *
 * Every operation begins with the members' descriptors: each posts its own in
 * start, and test reads all of them, which is the first barrier. What follows
 * is a pure function of the descriptors, so all members choose alike:
 *
 *   descriptors differ                   ERR_MISMATCH, nothing written
 *   no data                              done
 *   a gather, scatter or alltoall        see pairwise.c
 *   the data fit the mailbox             read there (inline.c)
 *   <= SMALL_BYTES                       read the small slots (inline.c)
 *   all in rg_alloc memory (broadcast:   read there (zero_copy.c)
 *   the root's; reduce: all and root's)
 *   a broadcast, an allgather            read by the kernel (read.c)
 *   otherwise, or where that fails       through staging (staged.c)
 *
 * Two parity slots per mailbox are enough: a member rewrites a slot in
 * operation q + 2, after it saw every descriptor of q + 1, and a member posts
 * q + 1 only after it has finished q. Algorithms that move data in steps do not
 * rely on that; they wait for the flags. */
#ifndef RG_SHM_SHM_COMM_H
#define RG_SHM_SHM_COMM_H

#include "sdk/transport/shm/layout.h"
#include "sdk/transport/tcp/net.h"

/* The last set that this process had in an area. */
typedef struct rg__tenant {
    uint32_t id;     /* 0: none */
    uint64_t member; /* a bit for each local rank */
} rg__tenant;

_Static_assert(RG__HOST_SLOTS_MAX <= 64, "a bit for each");

/* The segment and its members; the world's comm owns it. */
typedef struct rg__shared {
    int fd;        /* owned; -1: there is the world alone */
    uint32_t sets; /* places of them */
    char *at;      /* bells and area 0 */
    rg__layout layout;
    int rank, size, local_size;
    rg__member_id *member; /* by rank; owned, as what follows */
    uint32_t *host;        /* by rank */
    int *local_rank;       /* by rank: on its host */
    uint64_t proof;        /* read.c; a random number */
    uint32_t pid;          /* mine; 0: others may not read */
    uint64_t read_min;     /* bytes of a part that they may */
    rg__tenant *tenant;    /* by area */
    const rg__mappings *mappings;
    rg__net *net;           /* owned; NULL: all on one host */
    rg__messages *messages; /* owned */
} rg__shared;

typedef struct rg__local {
    int rank; /* in the world */
    rg__mailbox *mailbox;
    char *small;   /* two parity slots */
    char *medium;  /* likewise */
    char *staging; /* STAGES slots */
    rg__bell *bell;
    char *from, *to;    /* rg_alloc memory in this process (zero_copy.c) */
    uint32_t lacks_map; /* operation whose memory has not arrived here; 0 */
    uint32_t read_in;   /* the last operation in which I read its memory, */
    uint32_t pid;       /* of this process, which has proven to be it; 0 */
} rg__local;

typedef struct rg__inter rg__inter;
typedef struct rg__pairwise rg__pairwise;
typedef struct rg__schedule rg__schedule;

typedef struct rg__native rg__native;
typedef rg_status (*rg__advance_fn)(rg__native *c);

struct rg__native {
    rg__comm base;
    rg__shared *shared;
    char *area; /* mapped; owned except the world's, which is in shared */
    uint32_t id;
    int set_rank, set_n;    /* in the set */
    int rank, n;            /* among its members on this host */
    rg__local *member;      /* n of them; owned */
    rg__posting *posting;   /* copies of the members' descriptors; owned */
    rg__inter *inter;       /* owned; NULL: all members are on this host */
    rg__pairwise *pairwise; /* owned; NULL: no operation needed it yet, */
    rg__schedule *schedule; /* likewise */

    uint32_t ops;   /* operations begun, over the comm's life */
    rg__slip slip;  /* of a member that is one of them behind, or ahead */
    uint32_t steps; /* steps of the operations before this one */

    rg__coll coll;          /* what is in flight: what was started, or a part */
    rg__coll user;          /* of this, which is composed */
    bool has_begun;         /* something is, */
    bool is_local;          /* and it does not leave this host */
    int root;               /* among the local members, -1: elsewhere */
    uint64_t bytes;         /* of one member's data */
    int collected;          /* members whose descriptor was read */
    rg__advance_fn advance; /* NULL until all descriptors are read; and when
                               they have changed (read.c) */

    bool is_staged;  /* for the comm's life: a read has failed */
    bool has_failed; /* in this operation, here; */
    bool is_seen;    /* all members have read what they need */

    uint32_t in, out, done; /* steps of this operation finished by me */
    uint32_t last;          /* how many it has */
    uint64_t at;            /* position within the current step */
    int peer;               /* likewise */
};

/* Does the operation in flight stay on this host? */
static inline bool rg__shm_stays(const rg__native *c)
{
    return c->inter == NULL || c->is_local;
}

/* Of a world rank on this host. */
static inline rg__bell_line *rg__shm_bell_line(const rg__shared *sh, int rank)
{
    return &((rg__bell_line *)(void *)sh->at)[sh->local_rank[rank]];
}

/* flags.c */
typedef enum rg__flag { FLAG_IN, FLAG_OUT, FLAG_DONE } rg__flag;
void rg__shm_post(rg__native *c, rg__flag which, uint32_t step);
/* My next step is in. */
void rg__shm_finish_in(rg__native *c);
/* The same step for all three flags, at the end of an operation. */
void rg__shm_post_end(rg__native *c);
bool rg__shm_all_posted(const rg__native *c, rg__flag which, uint32_t step);
bool rg__shm_posted(const rg__native *c, int m, rg__flag which, uint32_t step);
void rg__shm_ring(rg__native *c);
/* The operation in flight has not moved anything. */
void rg__shm_rewind(rg__native *c);
static inline char *rg__shm_small(const rg__native *c, int m)
{
    return c->member[m].small + (c->ops & 1) * SMALL_BYTES;
}

static inline char *rg__shm_medium(const rg__native *c, int m)
{
    return c->member[m].medium + (c->ops & 1) * MEDIUM_BYTES;
}

/* The slot of member m in which a step's data lie. */
static inline char *rg__shm_slot(const rg__native *c, int m, uint32_t step)
{
    return c->member[m].staging +
           (size_t)((c->steps + step) % STAGES) * STAGE_BYTES;
}

/* part.c, for rg__kind_scatters: bytes [*begin_p, *end_p) of what is sent are member m's. */
void rg__shm_part(const rg__native *c, int m, uint64_t *begin_p,
                  uint64_t *end_p);

/* For rg__combine: the sum of the members here is the result, or a part of it.
 */
static inline int rg__shm_sum_of(const rg__native *c)
{
    return c->inter == NULL ? c->n : -c->set_n;
}

/* inline.c */
void rg__inline_publish(rg__native *c);
/* The sum of the local members' small data, in order: a part of the set's. */
void rg__inline_sum(const rg__native *c, void *sum);
const char *rg__inline_of(const rg__native *c, int m);
rg_status rg__inline_descriptors(rg__native *c);
rg_status rg__inline_slots(rg__native *c);

/* zero_copy.c */
bool rg__zero_copy_is_possible(const rg__native *c);
/* Where members' memory is in this process: `from` is what they send, `to` what
 * they receive into; IN_PROGRESS while it has not arrived. */
rg_status rg__zero_copy_locate_all(rg__native *c);
rg_status rg__zero_copy_locate_to(rg__native *c, int m);
void rg__zero_copy_describe(const rg__native *c, rg__where *w);
/* The same for what is sent alone, of that many bytes; part: to each. */
void rg__zero_copy_describe_send(const rg__native *c, uint64_t bytes,
                                 uint64_t part, rg__where *w);
/* Where bytes of what m sends are, `at` behind its begin. */
rg_status rg__zero_copy_locate_part(const rg__native *c, int m, uint64_t at,
                                    uint64_t bytes, const char **from_p);
rg_status rg__zero_copy_allreduce(rg__native *c); /* and the other reductions */
rg_status rg__zero_copy_broadcast(rg__native *c);
rg_status rg__zero_copy_allgather(rg__native *c);

/* read.c */
/* Name p where it is private, and others may read parts of so many bytes. */
void rg__read_describe(const rg__native *c, const void *p, uint64_t part,
                       uint32_t *segment_p, uint64_t *at_p, rg__where *w);
/* May a posting say RG__READ? Only where nothing is added up, on one host. */
bool rg__read_is_possible(const rg__native *c);
bool rg__read_is_used(const rg__native *c);
/* Copy, or read, the next piece of what member m has named so; true: it was the
 * last one. */
bool rg__read_take(rg__native *c, int m, uint32_t segment, void *to,
                   const void *from, uint64_t bytes);
/* I have read what I need; then until it counts. */
void rg__read_post(rg__native *c);
rg_status rg__read_end(rg__native *c);

/* staged.c */
rg_status rg__staged_allreduce(rg__native *c);
rg_status rg__staged_reduce_scatter(rg__native *c);
rg_status rg__staged_broadcast(rg__native *c);
rg_status rg__staged_allgather(rg__native *c);

#endif
