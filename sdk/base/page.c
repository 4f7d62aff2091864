#include "sdk/base/page.h"

#include "sdk/base/futex.h"
#include "sdk/base/hash.h"

void rg__page_ring(rg__page *page)
{
    atomic_fetch_add(&page->wake, 1);
    rg__futex_wake(&page->wake);
}

static rg__commit_id id_of(const rg__piece *p)
{
    return (rg__commit_id){atomic_load(&p->generation), atomic_load(&p->step)};
}

bool rg__piece_is(const rg__piece *p, rg__commit_id id)
{
    return atomic_load_explicit(&p->state, memory_order_acquire) ==
               RG__PIECE_COMPLETE &&
           rg__same_commit(id_of(p), id);
}

uint64_t rg__part_hash(const rg__part *part)
{
    const uint64_t numbers[] = {part->id.generation, part->id.step, part->index,
                                part->count, part->shards};
    return rg__hash_of(numbers, sizeof numbers);
}

void rg__piece_begin(rg__piece *piece, const rg__part *part)
{
    atomic_store(&piece->state, RG__PIECE_WRITING);
    atomic_store(&piece->index, part->index);
    atomic_store(&piece->count, part->count);
    atomic_store(&piece->shards, part->shards);
    atomic_store(&piece->generation, part->id.generation);
    atomic_store(&piece->step, part->id.step);
}

void rg__piece_end(rg__piece *piece, uint64_t sum)
{
    atomic_store(&piece->sum, sum);
    atomic_store(&piece->state, RG__PIECE_COMPLETE);
}

void rg__piece_empty(rg__piece *piece)
{
    atomic_store(&piece->state, RG__PIECE_EMPTY);
}

rg__commit_id rg__vault_part_id(const rg__vault *vault, int slot)
{
    return id_of(&vault->slot[slot][0]);
}

rg__commit_id rg__vault_id(const rg__vault *vault, int slot)
{
    const rg__piece *piece = vault->slot[slot];
    const rg__commit_id id = id_of(piece);
    const uint32_t count = atomic_load(&piece->count);
    if (id.generation == 0 || count == 0 || count > RG__HOST_SLOTS_MAX)
        return (rg__commit_id){0, 0};
    for (uint32_t i = 0; i < count; i++)
        if (!rg__piece_is(&piece[i], id) ||
            atomic_load(&piece[i].count) != count)
            return (rg__commit_id){0, 0};
    return id;
}

int rg__vault_find(const rg__vault *vault, rg__commit_id id)
{
    for (int slot = 0; slot < RG__VAULT_SLOTS; slot++)
        if (rg__same_commit(rg__vault_id(vault, slot), id))
            return slot;
    return -1;
}

rg__piece *rg__vault_shard(rg__vault *vault, int slot, rg__commit_id id,
                           uint32_t index)
{
    for (int i = 0; i < RG__SHARDS_MAX; i++) {
        rg__piece *shard = &vault->shard[slot][i];
        if (rg__piece_is(shard, id) && atomic_load(&shard->index) == index)
            return shard;
    }
    return NULL;
}

void rg__vault_empty(rg__vault *vault, int slot)
{
    for (int i = 0; i < RG__HOST_SLOTS_MAX; i++)
        rg__piece_empty(&vault->slot[slot][i]);
    for (int i = 0; i < RG__SHARDS_MAX; i++)
        rg__piece_empty(&vault->shard[slot][i]);
}

size_t rg__page_round(size_t bytes)
{
    return (bytes + RG__PAGE_BYTES - 1) / RG__PAGE_BYTES * RG__PAGE_BYTES;
}

#define HASHED_LEAST ((size_t)64 << 10) /* bytes; fewer are copied as fast */

/* A slice may end with a short block, so each has one more place. */
static size_t place_of(size_t begin, uint32_t index)
{
    return begin / RG__BLOCK + index;
}

static size_t hashes_begin(size_t bytes)
{
    return (bytes + RG__LINE - 1) / RG__LINE * RG__LINE;
}

size_t rg__vault_stride(size_t bytes)
{
    return rg__page_round(
        bytes < HASHED_LEAST
            ? bytes
            : hashes_begin(bytes) +
                  sizeof(uint64_t) * (place_of(bytes, RG__HOST_SLOTS_MAX) + 1));
}

size_t rg__vault_hashes(size_t bytes, size_t begin, uint32_t index)
{
    return bytes < HASHED_LEAST ? 0
                                : hashes_begin(bytes) +
                                      sizeof(uint64_t) * place_of(begin, index);
}

/* units * i / count without overflow, for i <= count. */
static size_t share(size_t units, uint64_t i, uint32_t count)
{
    return units / count * i + units % count * i / count;
}

void rg__slice(size_t bytes, size_t unit, uint32_t i, uint32_t count,
               size_t *begin_p, size_t *end_p)
{
    const size_t units = bytes / unit + (bytes % unit != 0);
    const size_t begin = share(units, i, count) * unit;
    const size_t end = share(units, (uint64_t)i + 1, count) * unit;
    *begin_p = begin < bytes ? begin : bytes;
    *end_p = end < bytes ? end : bytes;
}

void rg__vault_slice(size_t bytes, uint32_t i, uint32_t count, size_t *begin_p,
                     size_t *end_p)
{
    rg__slice(bytes, RG__LINE, i, count, begin_p, end_p);
}

void rg__shard_place(bool is_local, size_t bytes, size_t unit, uint32_t i,
                     uint32_t count, size_t *begin_p, size_t *end_p)
{
    rg__slice(bytes, unit, i, is_local ? RG__CELLS : count, begin_p, end_p);
}
