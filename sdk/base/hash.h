/* XXH3_64 and FNV-1a: they find damage, but prove nothing against an attacker.
 * Threads: any; one rg__hash belongs to one thread. */
#ifndef RG_BASE_HASH_H
#define RG_BASE_HASH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Over pieces of memory, as if they were one. */
typedef struct rg__hash {
    _Alignas(64) unsigned char room[640];
} rg__hash;

void rg__hash_begin(rg__hash *hash);
void rg__hash_update(rg__hash *hash, const void *data, size_t bytes);
uint64_t rg__hash_value(const rg__hash *hash);
/* The value as 16 hex digits. */
void rg__hash_end(const rg__hash *hash, char hex[17]);

uint64_t rg__hash_of(const void *data, size_t bytes);

/* The hashes of a slice's blocks, added up. Equal bytes under different names
 * or in different places have different hashes: so a sum shows what lies where,
 * whatever the order in which blocks are added. */
#define RG__BLOCK ((size_t)256 << 10)

typedef struct rg__sum {
    rg__hash hash;           /* of the block under way */
    uint64_t name;           /* a hash of it */
    size_t at;               /* bytes of the slice so far */
    uint64_t value;          /* of the blocks that have ended, and */
    uint64_t last;           /* of the last one alone */
    _Atomic uint64_t *table; /* where each block's goes when it ends, or NULL */
} rg__sum;

/* From byte `at` of the slice on, where a block begins. */
void rg__sum_begin(rg__sum *sum, const char *name, size_t at,
                   _Atomic uint64_t *table);
void rg__sum_update(rg__sum *sum, const void *data, size_t bytes);
/* Ends it; 0: there were no bytes. */
uint64_t rg__sum_end(rg__sum *sum);

/* FNV-1a, for a few words that ranks compare: its value travels between them,
 * so the function never changes. */
#define RG__MIX_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t rg__mix(uint64_t mix, uint64_t word)
{
    return (mix ^ word) * UINT64_C(0x100000001b3);
}

static inline uint64_t rg__mix_bytes(uint64_t mix, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        mix = rg__mix(mix, at[i]);
    return mix;
}

#endif
