#include "sdk/base/page.h"

#include <stdbool.h>

static bool piece_is(const rg__piece *p, rg__commit_id id, uint32_t count)
{
    return atomic_load_explicit(&p->state, memory_order_acquire) ==
               RG__PIECE_COMPLETE &&
           atomic_load(&p->generation) == id.generation &&
           atomic_load(&p->step) == id.step && atomic_load(&p->count) == count;
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
