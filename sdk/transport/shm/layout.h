/* The control segment: what the local ranks of one generation share.
 *
 *   | bells | left | lanes | area 0 | area 1 | ...
 *                          | verdicts | mailboxes | small | medium | staging |
 *
 * One bell per process. For each area, the last set there that each of them has
 * left: a member may be slow to read what another one has posted, which must
 * not use the area for its next set before that. Then an area for each place of
 * a set, with room for every local rank: set id has the area id % places, and a
 * process maps the areas of its sets. Within an area, a local member lies at
 * its rank on the host, so that sets without a common member may have one id:
 *
 *   verdict  what rail 0 has learned of the other hosts; at rail 0's rank
 *   mailbox  two entries (parity slots) and the member's flags
 *   small    two parity slots for data too large for the mailbox
 *   medium   the same, larger, for sets over several hosts
 *   staging  STAGES slots for the pipelines
 *
 * In front of them there is a lane of messages for each pair of local ranks and
 * each direction, for all sets; a world alone has none.
 *
 * Sequence numbers carry the set's id in their high half, so what a former set
 * left in an area is never taken for the present one's. The segment is sparse
 * and made fresh for each generation: memory is taken when it is first written,
 * and stays with its area for the next set there. Everything read from it may
 * have been scribbled on. */
#ifndef RG_SHM_LAYOUT_H
#define RG_SHM_LAYOUT_H

#include "sdk/transport/descriptor.h"
#include "sdk/transport/messages/byte_ring.h"

#define INLINE_BYTES 80
#define SMALL_BYTES  ((size_t)8 << 10)
#define MEDIUM_BYTES ((size_t)128 << 10)
#define STAGE_BYTES  ((size_t)256 << 10)
#define STAGES       4

#define RG__READ UINT32_MAX /* `at` is an address in process pid (read.c) */

typedef struct rg__where { /* where the data are; segment 0: private memory */
    uint64_t send_at, recv_at;
    uint32_t send_segment, recv_segment;
    uint64_t proof, proof_at; /* a random number, and its address in pid */
    uint32_t pid, spare;
} rg__where;

/* What a member posts: its descriptor, and its data or their place. */
typedef struct rg__posting {
    rg__descriptor descriptor;
    union {
        char data[INLINE_BYTES];
        rg__where at;
    };
} rg__posting;

/* What a member posts for one operation; seq is stored last (release). */
typedef struct rg__entry {
    _Alignas(128) _Atomic uint64_t seq;
    rg__posting posting;
} rg__entry;

/* Steps that a member has finished, over all operations of the set. */
typedef struct rg__flags {
    _Alignas(128) _Atomic uint64_t in; /* my data are in my slot */
    _Atomic uint64_t out;              /* my slice of the result is there */
    _Atomic uint64_t done;   /* I no longer need another member's slot */
    _Atomic uint64_t failed; /* last step of an operation in which I could
                                not read what I need; stored before done */
} rg__flags;

typedef struct rg__mailbox {
    rg__entry entry[2];
    rg__flags flags;
} rg__mailbox;

/* The outcome of the exchange between hosts. Rail 0 stores it, seq last
 * (release). One per host is enough: rail 0 stores the next one only after it
 * has read all local descriptors of the next operation. */
typedef struct rg__exchange_verdict {
    _Alignas(128) _Atomic uint64_t seq;
    uint32_t differs, spare;
    char data[INLINE_BYTES];
} rg__exchange_verdict;

typedef struct rg__bell_line {
    _Alignas(128) rg__bell bell;
    _Atomic uint32_t gone; /* rg__gone; a process's own word stays */
} rg__bell_line;

_Static_assert(sizeof(rg__entry) == 128, "an entry is two cache lines");
_Static_assert(sizeof(rg__exchange_verdict) == 128, "two cache lines");
_Static_assert(sizeof(rg__mailbox) == 384, "no gaps");

typedef struct rg__layout {
    uint64_t left; /* rows of ids, by area and local rank */
    uint64_t lanes;
    uint64_t verdicts, mailboxes, small, medium, staging; /* of area 0 */
    uint64_t area;  /* bytes from one area to the next */
    uint64_t bytes; /* of the whole segment */
} rg__layout;

rg__layout rg__shm_layout(int local_size, uint32_t sets);

static inline uint64_t rg__shm_seq(uint32_t id, uint32_t n)
{
    return (uint64_t)id << 32 | n;
}

#endif
