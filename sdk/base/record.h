/* The record of a worker: its last operations on every set, and the spans of a
 * timeline. It lies behind the page, in memory that the worker shares with its
 * agent, so it outlives the worker's death.
 *
 * Operations. There is a lane for each set, a ring of the set's newest
 * operations, written under the engine's lock: two clock reads of 3 ns and one
 * cache line for each operation. Lanes of closed sets are used again. One
 * half holds the current generation, the other the one before, so that what
 * ended a generation can be read after the next has begun. Numbers count a
 * set's collectives in a generation from 1, alike on all of its ranks: that is
 * how a dump finds the rank that has not started what others wait in.
 *
 * Spans. A ring with one writer at a time and one reader, filled only while the
 * reader asks for it; what finds no room is counted. Waits that follow each
 * other closely are one, which is in a place of its own until it is over.
 *
 * Scalars. A ring of the same kind, of what a step's rg_metric calls give over
 * all ranks, written by rank 0 alone; those of a step become visible at once.
 *
 * A worker can scribble here, so a reader checks each number. The layout
 * changes only together with RG__WIRE_VERSION. */
#ifndef RG_BASE_RECORD_H
#define RG_BASE_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "regroup/regroup.h"
#include "sdk/base/page.h"

#define RG__RECORD_LANES 4096 /* as many sets may live at once */
#define RG__LANE_OPS     32
#define RG__SPANS        8192 /* a power of 2 */
#define RG__WHAT_MAX     16
#define RG__SPAN_WHAT    12
#define RG__LANE_NAME    32

enum { RG__OP_QUEUED = 1, RG__OP_BEGUN, RG__OP_ENDED };

/* Of messages, beside the kinds of collectives. */
enum { RG__OP_SEND = 240, RG__OP_RECV };

/* One operation; times are of CLOCK_MONOTONIC_COARSE. */
typedef struct rg__op_note {
    _Alignas(RG__LINE) uint32_t serial; /* of all notes of its lane, from 1 */
    uint32_t number; /* of the set's collectives; 0: a message */
    uint64_t count, started_ns, ended_ns;
    uint32_t set;
    int32_t peer;   /* of a message; else the root */
    int16_t status; /* once it has ended */
    uint8_t kind, type, op, state, spare[2];
    char what[RG__WHAT_MAX]; /* call of the program that it is a part of, "":
                                kind says it */
} rg__op_note;

typedef struct rg__lane {
    _Atomic uint32_t notes; /* written so far */
    uint32_t set, size;
    uint64_t members; /* a hash of its ranks: sets of other members may have
                         the same id */
    _Atomic uint32_t started, ended; /* collectives */
    uint32_t is_free;                /* its set is closed */
    int32_t rank;                    /* of this worker in the set */
    char name[RG__LANE_NAME];
    rg__op_note note[RG__LANE_OPS];
} rg__lane;

typedef struct rg__half {
    _Atomic uint64_t generation; /* 0: none yet */
    int32_t rank, size;          /* in its world */
    _Atomic uint32_t lanes;      /* in use */
    rg__lane lane[RG__RECORD_LANES];
} rg__half;

static inline uint32_t rg__record_lanes(const rg__half *h)
{
    const uint32_t lanes = atomic_load(&h->lanes);
    return lanes < RG__RECORD_LANES ? lanes : RG__RECORD_LANES;
}

typedef enum rg__span_kind {
    RG__SPAN_OP = 1, /* an operation on a set */
    RG__SPAN_WAIT,   /* a thread of the program waited for operations */
    RG__SPAN_BEGINS, /* rg_state_commit is called; */
    RG__SPAN_COMMIT, /* and it has returned */
    RG__SPAN_KINDS
} rg__span_kind;

/* Times are of CLOCK_MONOTONIC. */
typedef struct rg__span {
    _Alignas(RG__LINE) uint64_t queued_ns;
    uint64_t begun_ns, ended_ns, count;
    uint32_t set, number; /* a commit: number is the step */
    uint32_t generation;
    int16_t status;
    uint8_t span, kind, type, op;
    char what[RG__SPAN_WHAT]; /* the set's name, as much as fits */
} rg__span;

#define RG__SCALARS         4096 /* a power of 2 */
#define RG__SCALARS_OF_STEP 64   /* the most */
#define RG__SCALAR_NAME     64

typedef struct rg__scalar {
    _Alignas(2 * RG__LINE) uint64_t step;
    uint64_t wall_ms;
    double value;
    uint32_t generation;
    uint32_t count; /* of the step's, which follow each other */
    char name[RG__SCALAR_NAME];
} rg__scalar;

typedef struct rg__record {
    _Atomic uint32_t half;   /* the one in use */
    _Atomic uint32_t traces; /* written by the agent: spans are wanted */
    _Alignas(RG__LINE) _Atomic uint64_t written; /* spans, ever */
    _Atomic uint64_t dropped;
    _Atomic uint32_t writing; /* by one of the worker's threads; no reader
                                 looks at it */
    _Alignas(RG__LINE) _Atomic uint64_t read; /* by the reader */
    rg__half generation[2];
    rg__span wait; /* not in the ring yet; begun_ns, written last, is 0: none */
    rg__span span[RG__SPANS];
    _Alignas(RG__LINE) _Atomic uint64_t scalars_written; /* ever */
    _Atomic uint64_t scalars_dropped;
    _Alignas(RG__LINE) _Atomic uint64_t scalars_read; /* by the reader */
    rg__scalar scalar[RG__SCALARS];
} rg__record;

_Static_assert(sizeof(rg__op_note) == RG__LINE, "one line");
_Static_assert(sizeof(rg__span) == RG__LINE, "one line");
_Static_assert(sizeof(rg__scalar) == 2 * RG__LINE, "two lines");

/* Page and record in one segment, the record behind the page. */
#define RG__AREA_BYTES (RG__PAGE_BYTES + sizeof(rg__record))

/* Are spans wanted? record may be NULL. */
static inline bool rg__record_traces(const rg__record *record)
{
    return record != NULL &&
           atomic_load_explicit(&record->traces, memory_order_relaxed) != 0;
}

/* Any thread of the worker. */
void rg__record_span(rg__record *record, const rg__span *span);

/* By its reader: the wait that is not in the ring; false: there is none. */
bool rg__record_wait(const rg__record *record, rg__span *wait_p);

/* Letters, digits and _ . - / ; 1 to 63 of them. */
bool rg__is_scalar_name(const char *name);
/* Those of a step; its only writer. */
void rg__record_scalars(rg__record *record, const rg__scalar *of_step, int n);

/* The record behind a page in such a segment. */
static inline rg__record *rg__record_of(rg__page *page)
{
    return (rg__record *)(void *)((char *)page + RG__PAGE_BYTES);
}

/* Map both; *record_p belongs to the same mapping as the page. */
rg_status rg__area_map(int fd, rg__page **page_p, rg__record **record_p);
void rg__area_unmap(rg__page *page);
/* A segment for both, of which the page is reserved. */
rg_status rg__area_create(int *fd_p);

#endif
