/* A mix: what follows from a seed on many sets at once, on any transport, with
 * the public interface alone. Sets of every shape are made and given back while
 * operations of others are in flight; each rank starts its operations, single
 * ones and groups, in an order of its own between sets, and waits for them in
 * any order, from one thread or two; now and then members differ, or join.
 * Every result is compared byte for byte; what is wrong ends the process. */
#ifndef TESTS_LIB_MIX_H
#define TESTS_LIB_MIX_H

#include <stdbool.h>

#include "tests/lib/mix_op.h"

typedef struct mix_params {
    rg_ctx *ctx;
    char *shared; /* rg_alloc memory, 64-byte aligned; borrowed. NULL: it is
                     taken by rg_alloc, and given back, in the mix */
    size_t shared_bytes;
    size_t most;     /* bytes of a buffer */
    bool may_differ; /* a mismatch is found before a byte is written */
    bool may_join;
    bool may_thread; /* the program may call from several threads */
} mix_params;

/* Collective over the world of 1 to MIX_MEMBERS ranks. All sets that it makes
 * are given back. */
void mix_play(const mix_params *params, uint64_t seed);

#endif
