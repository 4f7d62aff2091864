/* A comm of the mpi transport, and how an operation goes on.
 *
 * An operation is a sequence of stages. A stage is called when all the earlier
 * posts that it needs are complete; it does a bounded piece of work, posts what
 * comes next, and returns IN_PROGRESS, or the operation's result once all that
 * was posted is complete. */
#ifndef RG_MPI_MPI_COMM_H
#define RG_MPI_MPI_COMM_H

#include <limits.h>

#include "sdk/transport/mpi/mpi_lanes.h"
#include "sdk/base/clock.h"
#include "sdk/transport/descriptor.h"

/* Sets of at most so many send messages to each other. MPI's own nonblocking
 * collectives are for larger ones: they are no quicker, and Open MPI 4.1 tells
 * their failures to the error handler of MPI_COMM_WORLD, the program's. */
#define RG__MPI_FEW   16
#define RG__MPI_SMALL ((uint64_t)1 << 20) /* bytes that a root sends in all */

#define SMALL_SCRATCH 256
#define RG__ALL       INT_MAX /* requests */

typedef struct rg__mpi rg__mpi;
typedef struct rg__checked rg__checked; /* check.c */
typedef rg_status (*rg__stage_fn)(rg__mpi *c);

/* What each member contributes if all are compared first. */
typedef struct rg__brought {
    rg__descriptor descriptor;
    int64_t value[4]; /* AGREE */
} rg__brought;

/* In an uneven form: what one member sends, and what another one expects. */
typedef struct rg__pair {
    int32_t from, to;
    uint64_t sends, expects;
} rg__pair;

/* A reduction's block: elements that are exchanged and computed together. */
typedef struct rg__round {
    uint64_t at, count;
    char *scratch;   /* the scratch that receives others' data */
    int heard, sent; /* requests up to the last received, sent */
} rg__round;

struct rg__mpi {
    rg__comm base;
    MPI_Comm mpi;
    bool is_world;  /* mpi is the world's, and not this comm's to free */
    bool is_broken; /* MPI has failed on it */
    int rank, n;
    int *ranks; /* the members' world ranks; owned; NULL: it is the world */
    uint32_t id;

    rg__slip slip; /* finds a member that is an operation behind or ahead */
    uint64_t ops;  /* started */

    rg__coll coll;
    size_t element; /* bytes of one */
    uint64_t hash;  /* a hash of what members must start alike */
    int tag;        /* tag of its messages: members that have started different
                things do not take each other's */
    bool is_untold; /* check.c learns of it once its messages are on their way
                     */
    rg__stage_fn stage, next; /* next: the stage after a comparison */
    uint64_t at, part;        /* elements done, and in flight */
    uint64_t done;            /* elements of the part that are computed */
    uint64_t round_count;     /* elements of each round but the last */
    rg__round round[2];       /* by its number; two are in flight */
    bool is_together; /* a reduction that each member computes completely */
    bool is_packed;   /* an alltoall that sends from scratch */

    MPI_Request *request;   /* owned, as what follows */
    int requests, room;     /* how many are posted, and how many fit */
    int completed;          /* how many of the posted ones are complete */
    int needed;             /* how many the next stage needs, or RG__ALL */
    uint32_t looks;         /* polls without success */
    uint64_t since_ns;      /* since when; 0: there were only few */
    uint64_t looked_ns;     /* the last poll */
    rg__brought mine, *all; /* all: of n members */
    uint64_t *told;         /* a word to each member, and from each: */
    uint64_t *collected;    /* uneven: elements that it is sent; else whether */
    bool is_attended;       /* callers stay until the end, on all of them */
    rg__pair mine_found, *found; /* what differs; found: from n members */
    char *scratch;               /* memory of this operation; NULL: none */
    void *block;                 /* its block; NULL: it is in small */
    uint64_t block_bytes;
    _Alignas(16) char small[SMALL_SCRATCH]; /* for small scratch */

    rg__mpi_lanes *lanes; /* of the world; owned */

    rg__checked *checked; /* NULL: not compared late */
    char *failed; /* what MPI said when it failed; NULL: it has not failed */
    rg_status failed_st;
    uint64_t lost_ns; /* when MPI reported a lost member; 0: it has not */
};

/* stage.c */
/* A sleep may overshoot by half, so it is a small part of the wait so far. */
#define RG__MPI_SLEEP_NS (RG__MS / 10)

/* The result of a posting call, as a stage returns it. */
rg_status rg__mpi_posted(const char *call, int code);
/* Room for one more request, which counts as in flight; NULL: no memory. */
MPI_Request *rg__mpi_request(rg__mpi *c);
/* Operations posted from here on may go on during the next stage. */
void rg__mpi_need_so_far(rg__mpi *c);
/* Go on with that stage when so many of those posted are complete, at once if
 * they are by now. */
rg_status rg__mpi_then(rg__mpi *c, rg__stage_fn stage, int needed);
/* Give the operation memory until its end. like: what is copied to or from its
 * beginning; align parts of it as rg__mpi_stride does. */
rg_status rg__mpi_scratch(rg__mpi *c, uint64_t bytes, const void *like);
/* From one part of so many bytes to the next, with equal alignment. */
uint64_t rg__mpi_stride(uint64_t bytes);

void rg__mpi_free_scratch(rg__mpi *c);
/* Keep scratch of earlier operations for the next ones, at most so many bytes.
 */
void rg__mpi_keep_spares(uint64_t most);
/* Are the posts that are needed complete? */
rg_status rg__mpi_await(rg__mpi *c);
/* Polls of several idle sets take turns. Is it too early to poll this set
 * again? The set is no longer waited for; an operation starts. */
bool rg__mpi_backs_off(const rg__mpi *c);
void rg__mpi_note_no_wait(rg__mpi *c);
void rg__mpi_note_start(void);

/* elements.c: what this rank sends to rank r, and receives from it. */
typedef struct rg__elements {
    uint64_t at, count;
} rg__elements;

rg__elements rg__elements_to(const rg__mpi *c, int r);
rg__elements rg__elements_from(const rg__mpi *c, int r);
/* For an alltoall that sends from a copy, where parts follow one another. */
rg__elements rg__elements_packed(const rg__mpi *c, int r);
/* ERR_MISMATCH with its sentence. */
rg_status rg__elements_differ(const rg__mpi *c, rg__kind kind,
                              const rg__pair *p);
/* The MPI type for moving elements: of the same size, without padding. */
MPI_Datatype rg__mpi_type(rg_type type);
MPI_Datatype rg__mpi_reduced_type(rg_type type);

/* uneven.c */
/* Post told[r] to member r, and the receive of collected[r] from it. */
rg_status rg__mpi_tell(rg__mpi *c, int r);
rg_status rg__mpi_collect(rg__mpi *c, int r);
bool rg__uneven_is(const rg__mpi *c);
/* REGROUP_CHECK=each: a stage, on the way to c->next. */
rg_status rg__uneven_compare(rg__mpi *c);
/* late: post the counts, and wait for the others'; RG_OK or ERR_MISMATCH. */
rg_status rg__uneven_tell(rg__mpi *c);
rg_status rg__uneven_collected(rg__mpi *c);
/* move.c, mpi_reduce.c: a kind's first stage; begins with at = part = 0. */
rg__stage_fn rg__mpi_moves(const rg__mpi *c);
rg__stage_fn rg__mpi_reduces(const rg__mpi *c);
/* Post messages of count elements to or from a rank; none if count is 0. */
rg_status rg__mpi_send(rg__mpi *c, int to, const void *data, uint64_t count);
rg_status rg__mpi_recv(rg__mpi *c, int from, void *data, uint64_t count);

#endif
