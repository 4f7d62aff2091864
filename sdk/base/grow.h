/* Lists that grow by one item at a time. They have room for a power of two, so
 * a list is copied seldom and its room need not be kept: only this function
 * may get its memory. Threads: any. */
#ifndef RG_BASE_GROW_H
#define RG_BASE_GROW_H

#include <stdlib.h>
#include <string.h>

/* The item behind the first n, zeros; NULL: no memory, and the list stays. It
 * is the caller's to count. */
static inline void *rg__grow(void *list_p, size_t n, size_t item)
{
    char *list;
    memcpy(&list, list_p, sizeof list);
    if ((n & (n - 1)) == 0)
        list = realloc(list, item * (n > 0 ? 2 * n : 1));
    if (list == NULL)
        return NULL;
    memcpy(list_p, &list, sizeof list);
    return memset(list + item * n, 0, item);
}

#endif
