/* What programs about gradients on a static world share. */
#ifndef RG_TEST_GRADIENTS_H
#define RG_TEST_GRADIENTS_H

#include "tests/check.h"

static rg_ctx *ctx;
static rg_set *set; /* the world */
static int size, rank;

static inline void begin(void)
{
    CHECK_OK(rg_init(NULL, &ctx));
    set = rg_world(ctx);
    size = rg_size(ctx);
    rank = rg_rank(ctx);
}

static inline void all_have_equal_bits(const void *data, uint64_t bytes)
{
    unsigned char *most = malloc(bytes), *least = malloc(bytes);
    CHECK_OK(rg_allreduce(set, data, most, bytes, RG_U8, RG_MAX));
    CHECK_OK(rg_allreduce(set, data, least, bytes, RG_U8, RG_MIN));
    CHECK(memcmp(most, least, bytes) == 0);
    free(most);
    free(least);
}

#endif
