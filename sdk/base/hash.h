/* XXH3_64 and FNV-1a: they find damage, but prove nothing against an attacker.
 * Threads: any; one rg__hash belongs to one thread. */
#ifndef RG_BASE_HASH_H
#define RG_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Over pieces of memory, as if they were one. */
typedef struct rg__hash {
    _Alignas(64) unsigned char room[640];
} rg__hash;

void rg__hash_begin(rg__hash *hash);
/* Equal bytes under different names have different hashes: so a sum of hashes
 * shows what lies where, whatever the order. */
void rg__hash_begin_named(rg__hash *hash, const char *name);
void rg__hash_update(rg__hash *hash, const void *data, size_t bytes);
uint64_t rg__hash_value(const rg__hash *hash);
/* The value as 16 hex digits. */
void rg__hash_end(const rg__hash *hash, char hex[17]);

uint64_t rg__hash_of(const void *data, size_t bytes);

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
