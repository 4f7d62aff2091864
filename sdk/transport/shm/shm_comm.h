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

/* The last set that this process has had in an area. */
typedef struct rg__tenant {
    uint32_t id;     /* 0: none */
    uint64_t member; /* a bit for each local rank that is a member */
} rg__tenant;

_Static_assert(RG__HOST_SLOTS_MAX <= 64, "a bit for each");

/* The segment and the ranks that share it; owned by the world's comm. */
typedef struct rg__shared {
    int fd;        /* owned; -1: only the world uses it */
    uint32_t sets; /* places for sets */
    char *at;      /* the mapped bells and area 0 */
    rg__layout layout;
    int rank, size, local_size;
    rg__member_id *member; /* by rank; owned, like the next two */
    uint32_t *host;        /* by rank */
    int *local_rank;       /* by rank: its rank on its host */
    uint64_t proof;        /* a random number (read.c) */
    uint32_t pid;          /* mine; 0: others may not read my memory */
    uint64_t read_min;     /* smallest part in bytes that they may read */
    rg__tenant *tenant;    /* by area */
    const rg__mappings *mappings;
    rg__net *net;           /* owned; NULL: all on one host */
    rg__messages *messages; /* owned */
} rg__shared;

typedef struct rg__local {
    int rank; /* rank in the world */
    rg__mailbox *mailbox;
    char *small;   /* two parity slots */
    char *medium;  /* likewise */
    char *staging; /* STAGES slots */
    rg__bell *bell;
    char *from, *to;    /* its rg_alloc memory, as mapped here (zero_copy.c) */
    uint32_t lacks_map; /* operation that waits for its mapping; 0: none */
    uint32_t read_in;   /* the last operation in which I read its memory */
    uint32_t pid;       /* its process, once proven; 0: not proven */
} rg__local;

typedef struct rg__inter rg__inter;
typedef struct rg__pairwise rg__pairwise;
typedef struct rg__schedule rg__schedule;

typedef struct rg__native rg__native;
typedef rg_status (*rg__advance_fn)(rg__native *c);

struct rg__native {
    rg__comm base;
    rg__shared *shared;
    char *area; /* mapped; owned, except for the world's (in shared) */
    uint32_t id;
    int set_rank, set_n;    /* in the set */
    int rank, n;            /* among the members on this host */
    rg__local *member;      /* n of them; owned */
    rg__posting *posting;   /* copies of what members posted; owned */
    rg__inter *inter;       /* owned; NULL: all members are on this host */
    rg__pairwise *pairwise; /* owned; NULL: not needed so far */
    rg__schedule *schedule; /* likewise */

    uint32_t ops;   /* operations begun, over the comm's life */
    rg__slip slip;  /* finds a member that is one operation behind or ahead */
    uint32_t steps; /* all steps of earlier operations */

    rg__coll coll;          /* in flight: what was started, or a part of it */
    rg__coll user;          /* what was started, if it runs in parts */
    bool has_begun;         /* something is in flight */
    bool is_local;          /* and it stays on this host */
    int root;               /* among the local members; -1: on another host */
    uint64_t bytes;         /* of one member's data */
    int collected;          /* members whose posting has been read */
    rg__advance_fn advance; /* NULL until all descriptors are read, and after
                               stage_instead (read.c) */

    bool is_staged;  /* for good: a read has failed */
    bool has_failed; /* my read failed in this operation */
    bool is_seen;    /* in it, all members have read what they need */

    uint32_t in, out, done; /* steps of this operation finished by me */
    uint32_t last;          /* how many it has */
    size_t step_bytes;      /* of all but the last (steps.c) */
    int slices;             /* of each step */
    uint64_t at;            /* position within the current step */
    int peer;               /* likewise */
};

/* Does the operation in flight stay on this host? */
static inline bool rg__shm_stays(const rg__native *c)
{
    return c->inter == NULL || c->is_local;
}

/* The line of a world rank on this host. */
static inline rg__bell_line *rg__shm_bell_line(const rg__shared *sh, int rank)
{
    return &((rg__bell_line *)(void *)sh->at)[sh->local_rank[rank]];
}

/* flags.c */
typedef enum rg__flag { FLAG_IN, FLAG_OUT, FLAG_DONE } rg__flag;
void rg__shm_post(rg__native *c, rg__flag which, uint32_t step);
/* My data of the next step are in my slot. */
void rg__shm_finish_in(rg__native *c);
/* At the end of an operation: all three flags at the last step. */
void rg__shm_post_end(rg__native *c);
bool rg__shm_all_posted(const rg__native *c, rg__flag which, uint32_t step);
bool rg__shm_posted(const rg__native *c, int m, rg__flag which, uint32_t step);
void rg__shm_ring(rg__native *c);
/* Back to the state in which the operation in flight has moved nothing. */
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

/* part.c, rg__kind_scatters: bytes [*begin_p, *end_p) sent are member m's. */
void rg__shm_part(const rg__native *c, int m, uint64_t *begin_p,
                  uint64_t *end_p);

/* The `of` for rg__combine: are the local members all, or a part? */
static inline int rg__shm_sum_of(const rg__native *c)
{
    return c->inter == NULL ? c->n : -c->set_n;
}

/* May a member sum up where its result goes? Not if it would write over data of
 * its own there that are still to be added. */
static inline bool rg__shm_sums_there(const rg__native *c)
{
    return c->n == 2 || c->coll.send != c->coll.recv;
}

/* inline.c */
void rg__inline_publish(rg__native *c);
/* Sum the local members' small data in order: a part of the set's sum. */
void rg__inline_sum(const rg__native *c, void *sum);
const char *rg__inline_of(const rg__native *c, int m);
rg_status rg__inline_descriptors(rg__native *c);
rg_status rg__inline_slots(rg__native *c);

/* zero_copy.c */
bool rg__zero_copy_is_possible(const rg__native *c);
/* Find all members' memory in this process: `from` is what they send, `to` what
 * they receive into. IN_PROGRESS: a mapping has not arrived yet. */
rg_status rg__zero_copy_locate_all(rg__native *c);
rg_status rg__zero_copy_locate_to(rg__native *c, int m);
void rg__zero_copy_describe(const rg__native *c, rg__where *w);
/* Describe only the bytes that are sent; part: those for each member. */
void rg__zero_copy_describe_send(const rg__native *c, uint64_t bytes,
                                 uint64_t part, rg__where *w);
/* Where the bytes that m sends from offset `at` on are in this process. */
rg_status rg__zero_copy_locate_part(const rg__native *c, int m, uint64_t at,
                                    uint64_t bytes, const char **from_p);
rg_status rg__zero_copy_allreduce(rg__native *c); /* and the other reductions */
rg_status rg__zero_copy_broadcast(rg__native *c);
rg_status rg__zero_copy_allgather(rg__native *c);

/* read.c */
/* Name p if it is private memory and others may read parts of that size. */
void rg__read_describe(const rg__native *c, const void *p, uint64_t part,
                       uint32_t *segment_p, uint64_t *at_p, rg__where *w);
/* May a posting say RG__READ? Only on one host, if nothing is summed. */
bool rg__read_is_possible(const rg__native *c);
bool rg__read_is_used(const rg__native *c);
/* Copy, or read, the next piece that member m has named; true: the last one. */
bool rg__read_take(rg__native *c, int m, uint32_t segment, void *to,
                   const void *from, uint64_t bytes);
/* Post that I have read what I need; then wait until these reads count. */
void rg__read_post(rg__native *c);
rg_status rg__read_end(rg__native *c);

/* steps.c: an operation in steps of so many bytes, each in slices, of which
 * member m makes slice m. */
void rg__steps_begin(rg__native *c, size_t bytes, int slices);
uint64_t rg__step_begin(const rg__native *c, uint32_t step);
size_t rg__step_bytes(const rg__native *c, uint32_t step);
void rg__step_slice(const rg__native *c, uint32_t step, int m, size_t *begin_p,
                    size_t *end_p);
/* What member m adds to a sum, at `at` in the step. My slot has my data except
 * for my own slice, where the result goes: that is read from my memory. */
const char *rg__step_contribution(const rg__native *c, int m, uint32_t step,
                                  size_t at);
/* Copy the next step of my data into my slot, with or without my own slice. */
void rg__step_copy_in(rg__native *c, const void *data, bool but_mine);

/* staged.c */
rg_status rg__staged_allreduce(rg__native *c);
rg_status rg__staged_reduce_scatter(rg__native *c);
rg_status rg__staged_broadcast(rg__native *c);
rg_status rg__staged_allgather(rg__native *c);

#endif
