/* The control segment: what the local ranks of one generation share.
 *
 *   | bells | verdicts | lines | small | medium | staging |
 *
 * One bell per process. Then RG__SETS_MAX areas, each with room for every local
 * rank, at index id % RG__SETS_MAX; within an area, a local member lies at its
 * rank on the host, so that sets without a common member may have one id:
 *
 *   verdict  what lane 0 has heard of the other hosts; at lane 0's rank
 *   lines    two entry lines (parity slots) and the member's flags
 *   small    two parity slots for data too large for a line
 *   medium   the same, larger, for sets over several hosts
 *   staging  STAGES slots for the pipelines
 *
 * Sequence numbers carry the set's id in their high half, so what a former set
 * left in an area is never taken for the present one's. The segment is sparse
 * and made fresh for each generation. Everything read from it may have been
 * scribbled on. */
#ifndef RG_NATIVE_LAYOUT_H
#define RG_NATIVE_LAYOUT_H

#include "sdk/base/inner.h"
#include "sdk/transport/transport.h"

#define INLINE_BYTES 80
#define SMALL_BYTES  ((size_t)8 << 10)
#define MEDIUM_BYTES ((size_t)128 << 10)
#define STAGE_BYTES  ((size_t)256 << 10)
#define STAGES       4

typedef struct where { /* 0: private memory, else the owner's segment */
    uint64_t send_at, recv_at;
    uint32_t send_segment, recv_segment;
} where;

/* What a member says that it has started: equal on all members, but for the
 * count of a join. */
typedef struct said_line {
    uint8_t kind, type, op, spare;
    int32_t root;
    uint64_t count, tag;
    double prescale, postscale; /* 0: none */
} said_line;

/* The same with its data, or where they lie. */
typedef struct said {
    said_line line;
    union {
        char data[INLINE_BYTES];
        where at;
    };
} said;

/* One member's line of one operation; seq is stored last (release). */
typedef struct entry {
    _Alignas(128) _Atomic uint64_t seq;
    said said;
} entry;

/* Steps that a member has finished, counted for ever over all operations of the
 * set that move data in steps. */
typedef struct flags {
    _Alignas(128) _Atomic uint64_t in; /* my data lie in my slot */
    _Atomic uint64_t out;              /* my slice of the result does */
    _Atomic uint64_t done;             /* I need nobody's slot any more */
} flags;

typedef struct member_lines {
    entry line[2];
    flags flags;
} member_lines;

/* The outcome of the exchange between hosts; stored by lane 0, seq last
 * (release). One is enough: lane 0 stores the next one after it has heard all
 * local lines of the next operation. */
typedef struct verdict {
    _Alignas(128) _Atomic uint64_t seq;
    uint32_t differs, spare;
    char data[INLINE_BYTES];
} verdict;

typedef struct bell_line {
    _Alignas(128) rg__bell bell;
    _Atomic uint32_t has_left; /* its process has called rg_finalize */
} bell_line;

_Static_assert(sizeof(entry) == 128, "an entry is two cache lines");
_Static_assert(sizeof(said_line) == 40, "no gaps");
_Static_assert(sizeof(verdict) == 128, "two cache lines");
_Static_assert(sizeof(member_lines) == 384, "no gaps");

typedef struct layout {
    uint64_t verdicts, lines, small, medium, staging; /* offsets */
    uint64_t bytes;                                   /* of the whole */
} layout;

layout rg__native_layout(int local_size);

static inline uint64_t rg__native_seq(uint32_t id, uint32_t n)
{
    return (uint64_t)id << 32 | n;
}

/* lines.c: OK when all n members of the set said the same, else ERR_MISMATCH
 * with the sentence that names the ranks. Lines lie `stride` bytes apart. With
 * a join among them *joined is written, and RG__COLL_AGAIN is possible. */
RG_INNER rg_status rg__native_compare(uint32_t id, const said_line *line,
                                      size_t stride, int n, rg__coll *joined);
RG_INNER const char *rg__native_kind_name(rg__kind kind);

#endif
