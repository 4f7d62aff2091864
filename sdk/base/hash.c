/* With wide.c the only home of xxhash. */
#include "sdk/base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sdk/base/wide.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(rg__hash) >= sizeof(XXH3_state_t), "room for XXH3");

void rg__hash_begin(rg__hash *hash)
{
    XXH3_64bits_reset((XXH3_state_t *)(void *)hash->room);
}

/* A reset keeps the secret of a state with the same seed, which reused memory
 * may have by chance: so clear that first. */
static void begin_seeded(rg__hash *hash, uint64_t seed)
{
    XXH3_state_t *state = (XXH3_state_t *)(void *)hash->room;
    XXH3_INITSTATE(state);
    XXH3_64bits_reset_withSeed(state, seed);
}

void rg__hash_update(rg__hash *hash, const void *data, size_t bytes)
{
    XXH3_state_t *state = (XXH3_state_t *)(void *)hash->room;
#ifdef RG_WIDE
    if (__builtin_cpu_supports("avx2")) {
        rg__wide_hash(state, data, bytes);
        return;
    }
#endif
    XXH3_64bits_update(state, data, bytes);
}

uint64_t rg__hash_value(const rg__hash *hash)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hash->room);
}

void rg__hash_end(const rg__hash *hash, char hex[17])
{
    snprintf(hex, 17, "%016" PRIx64, rg__hash_value(hash));
}

uint64_t rg__hash_of(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

/* ------------------------------------------------------------------- blocks */

void rg__sum_begin(rg__sum *sum, const char *name, size_t at,
                   _Atomic uint64_t *table)
{
    sum->name = XXH3_64bits(name, strlen(name));
    sum->at = at;
    sum->value = sum->last = 0;
    sum->table = table;
}

static void end_block(rg__sum *sum)
{
    sum->last = rg__hash_value(&sum->hash);
    sum->value += sum->last;
    if (sum->table != NULL)
        atomic_store(sum->table++, sum->last);
}

void rg__sum_update(rg__sum *sum, const void *data, size_t bytes)
{
    const char *from = data;
    for (size_t n; bytes > 0; from += n, bytes -= n) {
        const size_t in_block = sum->at % RG__BLOCK;
        const size_t left = RG__BLOCK - in_block;
        n = bytes < left ? bytes : left;
        if (in_block == 0)
            begin_seeded(&sum->hash, sum->name + sum->at);
        rg__hash_update(&sum->hash, from, n);
        sum->at += n;
        if (n == left)
            end_block(sum);
    }
}

uint64_t rg__sum_end(rg__sum *sum)
{
    if (sum->at % RG__BLOCK != 0)
        end_block(sum);
    return sum->value;
}
