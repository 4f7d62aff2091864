/* What ranks send, and what they must receive: a pattern of seven numbers that
 * repeats. Which of them comes first, the phase, says who sent a part to whom
 * and in which round, so that a part in the wrong place or of an earlier round
 * is seen. Writing and comparing are copies of whole tiles.
 *
 * Threads: any. Ownership: a tile is the caller's. */
#ifndef TESTS_BENCH_COLLECTIVES_TILE_H
#define TESTS_BENCH_COLLECTIVES_TILE_H

#include "regroup/regroup.h"

#define TILE_PERIOD   7
#define TILE_ELEMENTS (TILE_PERIOD * 512)

typedef struct tile {
    rg_type type;
    unsigned char data[(TILE_ELEMENTS + TILE_PERIOD) * 8];
} tile;

/* The tile of what ranks send. */
void tile_of_given(tile *t, rg_type type);

/* The tile of an op over n ranks. */
void tile_of_result(tile *t, rg_type type, rg_op op, int n);

/* The phase of what rank `from` sends to rank `to`, 0 where it is for all. Of a
 * result: that of rank 0. */
int tile_phase(int from, int to, uint64_t round);

void tile_write(const tile *t, void *data, uint64_t count, int phase);

/* How many elements of data are not what the tile says. */
uint64_t tile_wrong(const tile *t, const void *data, uint64_t count, int phase);

#endif
