/* Every collective on one set against a closed form, for any transport: only
 * the public interface is used. A test that finds a wrong byte ends the
 * process (check.h). */
#ifndef TESTS_LIB_COLLECTIVES_H
#define TESTS_LIB_COLLECTIVES_H

#include "regroup/regroup.h"

/* Memory of this rank: two buffers of `room` bytes each, from malloc or
 * rg_alloc. */
typedef struct collectives_memory {
    char *send, *recv;
    size_t room;
} collectives_memory;

/* The most bytes that one part of an operation has, by how thorough: a buffer
 * needs (set size + 1) times as much, and 64 bytes more. */
#define COLLECTIVES_FEW  ((size_t)8 << 10)
#define COLLECTIVES_MANY ((size_t)600 << 10)

#define COLLECTIVES_ROOM(most, n) (((n) + 1) * ((most) + 64) + 64)

/* Collective over the set's members. Every type and op, with scales and
 * without, in place and not, at sizes up to `most` bytes. */
void collectives_reduce(rg_set *set, collectives_memory m, size_t most);

/* Every kind that moves data, with equal and with uneven counts, from and to
 * every root. */
void collectives_move(rg_set *set, collectives_memory m, size_t most);

#endif
