/* Lists whose items are linked by their first field, the last one's being NULL.
 * Threads: the list's. */
#ifndef RG_BASE_CHAIN_H
#define RG_BASE_CHAIN_H

#include <string.h>

/* What an item's first field points to, or a list's own pointer. */
static inline void *rg__chain_next(const void *at)
{
    void *next;
    memcpy(&next, at, sizeof next);
    return next;
}

/* Take an item out; nothing if it is not in the list. */
static inline void rg__chain_remove(void *list_p, const void *item)
{
    void *at = list_p, *next;
    while ((next = rg__chain_next(at)) != NULL && next != item)
        at = next;
    if (next != NULL)
        memcpy(at, item, sizeof next);
}

/* Behind all others; its first field is NULL. */
static inline void rg__chain_append(void *list_p, void *item)
{
    void *at = list_p, *next;
    while ((next = rg__chain_next(at)) != NULL)
        at = next;
    memcpy(at, &item, sizeof item);
}

#endif
