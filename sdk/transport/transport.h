/* The transport contract: how the members of one set move data.
 *
 * A comm is one set's view of one generation. Every slot is called with the
 * engine's lock held, so one thread at a time per process; none blocks, none
 * sleeps, and each call does a bounded piece of work (RG__WORK_BYTES), so that
 * one large operation delays neither another set nor an abort.
 *
 * Operations on a comm run one at a time: the engine starts the next one after
 * the former has completed here. Members start them in the same order.
 *
 * Failure: start and test return OK, IN_PROGRESS or an error. ERR_MISMATCH and
 * argument errors leave the comm usable and have written no byte of recv. A
 * comm that is aborted or broken is only good for close. No transport decides
 * that a peer is dead: it waits until the generation is aborted. */
#ifndef RG_TRANSPORT_H
#define RG_TRANSPORT_H

#include <stdbool.h>

#include "regroup/regroup.h"
#include "sdk/base/futex.h"
#include "sdk/base/wire.h"

#define RG__WORK_BYTES ((size_t)256 << 10) /* per call of test */

typedef struct rg__comm rg__comm;         /* each transport embeds it first */
typedef struct rg__messages rg__messages; /* messages/ */

/* The kinds; a new one goes last. AGREE is Regroup's own: an
 * allreduce max over 4 i64 that matches no user's operation. */
#define RG__COLLS(X)                                                           \
    X(ALLREDUCE, "allreduce")                                                  \
    X(BROADCAST, "broadcast")                                                  \
    X(ALLGATHER, "allgather")                                                  \
    X(BARRIER, "barrier")                                                      \
    X(AGREE, "agreement")                                                      \
    X(REDUCE, "reduce")                                                        \
    X(REDUCE_SCATTER, "reduce_scatter")   /* count elements for each member */ \
    X(REDUCE_SCATTERV, "reduce_scatterv") /* recv_counts[r] for member r */    \
    X(ALLGATHERV, "allgatherv")                                                \
    X(GATHER, "gather")                                                        \
    X(GATHERV, "gatherv")                                                      \
    X(SCATTER, "scatter")                                                      \
    X(SCATTERV, "scatterv")                                                    \
    X(ALLTOALL, "alltoall")                                                    \
    X(ALLTOALLV, "alltoallv")                                                  \
    X(JOIN, "join")

typedef enum rg__kind {
    RG__COLL_NONE,
#define X(kind, text) RG__##kind,
    RG__COLLS(X)
#undef X
        RG__COLL_KINDS
} rg__kind;

/* One operation, its arguments checked by the caller. kind, type, op, root,
 * scales and tag must agree between members, and count as well except for
 * GATHERV, SCATTERV, ALLGATHERV and ALLTOALLV, where each pair's counts must.
 *
 * Counts and places are arrays of the set's size, in elements, never NULL where
 * a kind has them; they stay until the operation has ended:
 *
 *   REDUCE_SCATTERV  recv_counts (equal everywhere; the parts lie packed in
 *                    send); count: their sum
 *   ALLGATHERV       recv_counts, recv_places (equal counts everywhere); count:
 *                    what this member sends
 *   GATHERV          at the root recv_counts, recv_places; count: what this
 *                    member sends
 *   SCATTERV         at the root send_counts, send_places; count: what this
 *                    member receives
 *   ALLTOALLV        all four; count: 0
 *
 * In place: send == recv (ALLREDUCE, REDUCE, ALLTOALL; ALLTOALLV when counts
 * and places are equal too, pairwise), send is this member's part of recv
 * (ALLGATHER, ALLGATHERV, GATHER, GATHERV at the root), or recv this member's
 * part of send (REDUCE_SCATTER, REDUCE_SCATTERV, SCATTER, SCATTERV at the
 * root). Nothing else overlaps, except for allgathers that send from elsewhere
 * in recv.
 *
 * JOIN: from now on this member adds nothing to the operations of the others;
 * it is answered at once, in one of three ways (comm->joined says more):
 *   OK              all have joined; joined.root is the last of them: the
 *                   highest rank whose `count` is 1 (it has joined just now)
 *   RG__COLL_AGAIN  some have joined and the rest has started one and the same
 *                   ALLREDUCE; all members get it. No data has moved. All then
 *                   start that allreduce once more (joined says which), with
 *                   `tag` RG__JOINED_TAG; those that have joined contribute
 *                   neutral elements.
 *   ERR_MISMATCH    some have joined, and the others started something else;
 *                   those that have joined then start their JOIN again. */
typedef struct rg__coll {
    rg__kind kind;
    rg_type type;
    rg_op op;
    int root;
    uint64_t count;
    const void *send; /* broadcast: NULL, since the data are in recv; ignored
                         if a member sends or receives nothing */
    void *recv;
    uint64_t tag; /* AGREE: what is agreed on; in a group: a digest of it;
                     members must agree on it */
    double prescale, postscale; /* for reductions; 0: none */
    const uint64_t *send_counts, *send_places;
    const uint64_t *recv_counts, *recv_places;
    /* For log lines and errors; not compared: */
    const char *what;   /* the program's call that it belongs to; NULL: kind
                           says it */
    const char *absent; /* what a late member has not done, and must do;
                           NULL: start the same */
    bool is_awaited;    /* its caller stays in this call until it has ended */
} rg__coll;

/* What test returns besides the public statuses; never seen by users. */
#define RG__COLL_AGAIN ((rg_status)2)
#define RG__JOINED_TAG UINT64_C(0x6a6f696e65640000)

/* AGREE: a step or fn ends; the sentence about a difference says so. */
#define RG__STEP_TAG UINT64_C(0x7374657000000000)

/* BARRIER: the member's call was refused, with the status that is subtracted
 * from it. It stands where the operation would have been, so that the others do
 * not wait for that: ERR_MISMATCH names the member and the status. */
#define RG__REFUSED_TAG UINT64_C(0x7265667573656400)

/* A buffer of the owner's that rg_register has moved: its whole pages are those
 * of the segment, in the owner's process at both places. What it has of other
 * pages, its edges, lies beside them in the segment, and is copied. */
typedef struct rg__home {
    char *at; /* NULL: none */
    uint64_t bytes;
    char *pages;
    uint64_t pages_bytes, pages_at; /* in the segment */
} rg__home;

/* rg_alloc memory of local members, mapped in this process. Filled by the
 * worker room; entries appear at any time, and go only when their owner freed
 * them or left. Looked up with the engine's lock held. */
typedef struct rg__mapping {
    rg__member_id owner;
    uint32_t id;
    uint64_t bytes;
    char *at;
    rg__home home; /* in the owner's process only */
} rg__mapping;

typedef struct rg__mappings {
    rg__mapping *item;
    int count;
    /* Look for a missing one, and add it; NULL: they arrive unasked. */
    bool (*fetch)(void *arg, rg__member_id owner, uint32_t id);
    void *fetch_arg;
    int maps; /* /proc/self/maps, where there is a home */
} rg__mappings;

/* Owner's mapping that holds [p, p + bytes), or NULL; where p is in it. */
const rg__mapping *rg__mapping_of(const rg__mappings *all, rg__member_id owner,
                                  const void *p, uint64_t bytes);
uint64_t rg__mapping_place(const rg__mapping *m, const void *p);

/* Are all of a home's pages still the segment's? Not after the program has
 * unmapped or freed some of them without rg_unregister, and perhaps not if it
 * has given some of them other rights. And do these bytes make up one area of
 * the process that a file, or a segment, is behind? maps: its /proc/self/maps,
 * which newer kernels tell faster, or -1. */
bool rg__mapping_is_shared(int maps, const rg__home *home);
bool rg__mapping_is_area(int maps, const void *begin, uint64_t bytes);

/* Copy the edges' bytes of [p, p + bytes) to the segment, or back. */
void rg__mapping_give_edges(const rg__mapping *m, const void *p,
                            uint64_t bytes);
void rg__mapping_take_edges(const rg__mapping *m, void *p, uint64_t bytes);
/* The mapping of that owner and id; NULL: it has not arrived. */
const rg__mapping *rg__mapping_find(const rg__mappings *all,
                                    rg__member_id owner, uint32_t id);

/* What a comm of the world is opened with; borrowed until open returns, except
 * mappings, which outlive the comm. */
typedef struct rg__boot {
    int rank, size;
    int local_rank, local_size;
    uint64_t generation;
    const rg__member_id *member; /* by rank */
    int control_fd;              /* this host's segment for this generation, */
    uint64_t control_bytes;      /* zeroed; open maps it and close unmaps */
    const rg__mappings *mappings;
    uint32_t sets; /* places of sets in it, 0: RG__SETS_MAX; 1: there is the
                      world alone, and no messages, and control_fd is not kept
                      open */

    /* Several hosts only: */
    int host_count;             /* 0 or 1: all on one host */
    const rg__place *place;     /* by rank */
    const rg__address *address; /* by host */
    int listener;       /* this worker's, for all generations: listening,
                           non-blocking; borrowed as long as the comm lives */
    const uint8_t *key; /* RG__KEY_BYTES: both ends of a connection prove it;
                           copied */
    /* A connection to that rank broke, or can't be made: publish it. The
       operation goes on waiting until the generation is aborted. Called at most
       once per comm of the world, with the engine's lock held; must not call
       back. */
    void (*broken)(void *arg, int rank, const char *why);
    /* That rank does not answer (bytes 0), or none of so many bytes sent to it
       has been acknowledged for so long, though they are sent again: its host
       may not be reached, or not by large packets. May come again and again,
       under the same rules. NULL: not reported. */
    void (*stuck)(void *arg, int rank, uint64_t bytes, uint64_t waited_ms);
    void *broken_arg; /* the argument of both */
} rg__boot;

/* Is a member still here, or does it start no more operations? */
typedef enum rg__gone {
    RG__IS_HERE,
    RG__HAS_LEFT, /* it has called rg_finalize */
    RG__IS_LOST   /* its process has ended without it */
} rg__gone;

typedef struct rg__transport {
    size_t size; /* of this struct, as the transport was compiled */
    const char *name;

    /* Open the world's comm. Not collective: that all have built it is agreed
     * through the agents before any member starts an operation. */
    rg_status (*open)(const rg__boot *boot, rg__comm **comm_p);

    /* Open a comm for n world ranks in that order, of which this rank is one.
     * Collective over the members in that id is equal. It is unique in the
     * generation, except for sets without a common member, which may share one.
     * Does not wait. The parent outlives it. *comm_p is what `rendezvous`
     * has made, and is closed where this fails. */
    rg_status (*split)(rg__comm *world, const int *ranks, int n, uint32_t id,
                       rg__comm **comm_p);

    /* The part of it that waits for the other members, called before it with
     * the same arguments: if is_for_all, without the engine's lock, so that
     * operations go on meanwhile. NULL: nothing waits. */
    rg_status (*rendezvous)(rg__comm *world, const int *ranks, int n,
                            uint32_t id, rg__comm **comm_p);

    /* May this process have another set in that place (id % RG__SETS_MAX)? Not
     * while a member of its last one there, which it has closed, has not: that
     * one may still read what this process has posted. NULL: yes. */
    bool (*is_vacant)(rg__comm *world, uint32_t place);

    /* Begin an operation, the comm's only one; RG_OK: it has begun, go on with
     * test. coll is copied; its buffers are the transport's until test returns
     * anything else than IN_PROGRESS. */
    rg_status (*start)(rg__comm *comm, const rg__coll *coll);

    /* Advance it. Writes the sentence of a failure with rg__fail. */
    rg_status (*test)(rg__comm *comm);

    /* The bell that rings when a peer has posted something for this process
     * (one per process, of the world's comm), on a set whose rg__set_bit is
     * among the bell's `wants`; NULL if nothing ever comes. */
    rg__bell *(*bell)(rg__comm *world);

    /* The calling thread, which has counted itself in as a sleeper, is about to
     * sleep on the bell: make sure that the bell also rings for events that
     * don't ring by themselves. NULL: there are none. */
    void (*arm)(rg__comm *world);

    /* Set ranks of members that the operation in flight waits for, at most
     * room; returns how many. Any thread with the engine's lock. NULL: not
     * known. */
    int (*awaited)(rg__comm *comm, int *ranks, int room);

    /* This process ends, and starts nothing any more: called before close, so
     * that no peer waits for it. NULL: peers can't be told. */
    void (*goodbye)(rg__comm *world);

    /* Has that member, a set rank, reported that, or has its process ended?
     * Rules as for awaited; RG__IS_HERE also if not known. NULL: it never
     * is. */
    rg__gone (*gone)(rg__comm *comm, int rank);

    /* The process of that rank of the world has ended: callers that wait for it
     * learn that from `gone`. NULL: the transport finds out by itself. */
    void (*lost)(rg__comm *world, int rank);

    /* May the Regroup thread call the slots of this world's comms? NULL: it
     * may; else only threads that are inside a call do. */
    bool (*is_for_all)(rg__comm *world);

    /* May the calling thread, which is a program's? NULL: each may. */
    bool (*admits)(rg__comm *world);

    rg__wait_policy wait; /* how threads wait; sleep_ns 0: the usual policy */

    /* Is memory of the operation in flight also used by a library that does not
     * stop when it is given up? Then that memory is never freed. NULL: no. */
    bool (*holds)(rg__comm *comm);

    /* The world's messages, owned by its comm. NULL: the transport has none. */
    rg__messages *(*messages)(rg__comm *world);

    /* Give everything back; takes half-built comms, comms with an operation in
     * flight, and dead peers; never waits. The world's comm goes last. */
    void (*close)(rg__comm *comm);
} rg__transport;

struct rg__comm {
    const rg__transport *transport;
    uint64_t moves;  /* pieces of work done; while test leaves it as it was, the
                        operation waits for a peer */
    rg__coll joined; /* what test has found with a JOIN in flight: kind, type,
                        op, count, scales of the allreduce, or root */
};

extern const rg__transport rg__transport_self;
extern const rg__transport rg__transport_native;

/* Bytes of the control segment that native needs for this many local ranks and
 * places of sets; sparse, so most of them cost nothing. */
uint64_t rg__shm_control_bytes(int local_size, uint32_t sets);

/* The bit of a set in a bell's `wants`; the world's id is 0. */
static inline uint32_t rg__set_bit(uint32_t id)
{
    return UINT32_C(1) << id % 32;
}

/* Sets per generation that a control segment has room for: the world, those of
 * a program, and one of Regroup's own. A set's place is id % RG__SETS_MAX; the
 * next set that is made there has a higher id. */
#define RG__SETS_MAX     4096
#define RG__SETS_PROGRAM (RG__SETS_MAX - 2)
#define RG__SET_OWN      (RG__SETS_MAX - 1) /* its id */
#define RG__SETS_DEVICE  256 /* places of sets with device memory: below that */
#define RG__SET_MESSAGES UINT32_MAX /* not a set: connections for messages */

#endif
