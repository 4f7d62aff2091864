#include "sdk/base/page.h"

static bool piece_is(const rg__piece *p, rg__commit_id id, uint32_t count)
{
    return atomic_load_explicit(&p->state, memory_order_acquire) ==
               RG__PIECE_COMPLETE &&
           atomic_load(&p->generation) == id.generation &&
           atomic_load(&p->step) == id.step && atomic_load(&p->count) == count;
}

void rg__piece_begin(rg__piece *piece, rg__commit_id id, uint32_t count)
{
    atomic_store(&piece->state, RG__PIECE_WRITING);
    atomic_store(&piece->count, count);
    atomic_store(&piece->generation, id.generation);
    atomic_store(&piece->step, id.step);
}

void rg__piece_end(rg__piece *piece, uint64_t sum)
{
    atomic_store(&piece->sum, sum);
    atomic_store(&piece->state, RG__PIECE_COMPLETE);
}

rg__commit_id rg__vault_id(const rg__vault *vault, int slot)
{
    const rg__piece *piece = vault->slot[slot];
    const rg__commit_id id = {atomic_load(&piece->generation),
                              atomic_load(&piece->step)};
    const uint32_t count = atomic_load(&piece->count);
    if (id.generation == 0 || count == 0 || count > RG__HOST_SLOTS_MAX)
        return (rg__commit_id){0, 0};
    for (uint32_t i = 0; i < count; i++)
        if (!piece_is(&piece[i], id, count))
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

void rg__vault_empty(rg__vault *vault, int slot)
{
    for (int i = 0; i < RG__HOST_SLOTS_MAX; i++)
        atomic_store(&vault->slot[slot][i].state, RG__PIECE_EMPTY);
}

size_t rg__vault_stride(size_t bytes)
{
    return (bytes + RG__PAGE_BYTES - 1) / RG__PAGE_BYTES * RG__PAGE_BYTES;
}

void rg__vault_slice(size_t bytes, uint32_t i, uint32_t count, size_t *begin_p,
                     size_t *end_p)
{
    const size_t lines = (bytes + RG__LINE - 1) / RG__LINE;
    const size_t begin = lines * i / count * RG__LINE;
    const size_t end = lines * (i + 1) / count * RG__LINE;
    *begin_p = begin < bytes ? begin : bytes;
    *end_p = end < bytes ? end : bytes;
}
