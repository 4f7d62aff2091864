/* One collective on one set, with the buffers of this rank: placed, written,
 * started, checked.
 *
 * Threads: one. Ownership: set, peer and room are borrowed, the rest is given
 * back by work_close.
 * Units: sizes as in nccl-tests, the bytes of the longer of a rank's buffers.
 */
#ifndef TESTS_BENCH_COLLECTIVES_WORK_H
#define TESTS_BENCH_COLLECTIVES_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "regroup/regroup.h"
#include "tests/bench/collectives/tile.h"

typedef enum kind {
    ALLREDUCE,
    REDUCE,
    REDUCE_SCATTER,
    ALLGATHER,
    BROADCAST,
    GATHER,
    SCATTER,
    ALLTOALL,
    BARRIER,
    KINDS
} kind;

extern const char *const kind_names[KINDS];
bool kind_reduces(kind k);
bool kind_has_root(kind k);

/* Each rank has a part of its own in the longer buffer; such a collective has
 * an uneven form. */
bool kind_has_parts(kind k);

/* What the algorithm's bandwidth is multiplied with to be compared with that of
 * the hardware, n ranks; as nccl-tests has it. */
double kind_factor(kind k, int n);

struct rg__peer;

typedef struct work {
    kind kind;
    rg_type type;
    rg_op redop;
    int root;
    bool in_place, uneven;
    rg_set *set;
    struct rg__peer *peer; /* NULL: no MPI beside */
    int rank, n;           /* in the set */
    uint64_t count;   /* elements of one part, where uneven the mean of three */
    uint64_t *counts; /* of the parts of each rank, one behind the other */
    int *int_counts, *int_places; /* the same for MPI, and where they begin */
    char *send, *recv;
    tile given, result;
} work;

/* Bytes of memory that a work of that size needs, by type, uneven and n. */
size_t work_room(const work *w, uint64_t size);

/* Make the arrays of counts, for n ranks. False: out of memory. */
bool work_open(work *w);
void work_close(work *w);

/* Set counts and tiles by kind, type, redop, uneven, rank and n. */
void work_size(work *w, uint64_t size);

/* Elements and bytes of the longer buffer. */
uint64_t work_elements(const work *w);
uint64_t work_bytes(const work *w);

/* Set the buffers by in_place, in room of work_room bytes. */
void work_place(work *w, void *room);

/* Write what this rank sends in that round; what it receives is wiped. */
void work_write(const work *w, uint64_t round);

rg_status work_start(const work *w, rg_req **req_p);
rg_status work_run(const work *w);

/* Elements of the result that are wrong. by_mpi: MPI has made it. */
uint64_t work_wrong(const work *w, uint64_t round, bool by_mpi);

#endif
