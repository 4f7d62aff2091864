/* Looking up rg_alloc memory: few and large segments, so a list will do. */
#include "sdk/transport/transport.h"

static bool holds(const rg__mapping *m, const void *p, uint64_t bytes)
{
    const uintptr_t begin = (uintptr_t)m->at, at = (uintptr_t)p;
    return at >= begin && at - begin <= m->bytes &&
           bytes <= m->bytes - (at - begin);
}

const rg__mapping *rg__mapping_of(const rg__mappings *all, rg__member_id owner,
                                  const void *p, uint64_t bytes)
{
    for (int i = 0; all != NULL && i < all->count; i++)
        if (rg__same_member(all->item[i].owner, owner) &&
            holds(&all->item[i], p, bytes))
            return &all->item[i];
    return NULL;
}

static const rg__mapping *look_for(const rg__mappings *all, rg__member_id owner,
                                   uint32_t id)
{
    for (int i = 0; i < all->count; i++)
        if (all->item[i].id == id && rg__same_member(all->item[i].owner, owner))
            return &all->item[i];
    return NULL;
}

const rg__mapping *rg__mapping_find(const rg__mappings *all,
                                    rg__member_id owner, uint32_t id)
{
    if (all == NULL)
        return NULL;
    const rg__mapping *found = look_for(all, owner, id);
    if (found == NULL && all->fetch != NULL &&
        all->fetch(all->fetch_arg, owner, id))
        found = look_for(all, owner, id);
    return found;
}
