/* Params structs of callers: each begins with its own size, as the caller's
 * header had it, so that a newer library takes those of older programs. A new
 * member begins at or after the size that the struct had: in what was padding
 * until then, older programs have whatever was in memory.
 * Functions without state; any thread. */
#ifndef RG_BASE_PARAMS_H
#define RG_BASE_PARAMS_H

#include <stddef.h>

#include "regroup/regroup.h"

/* The size of a struct whose last member was that one. */
#define RG__PARAMS_UP_TO(type, member)                                         \
    (offsetof(type, member) + sizeof(((type *)0)->member))

/* Copy the caller's struct over `to`, of `room` bytes, which holds the
 * defaults: they stay where the caller's is shorter, or NULL. least: bytes of
 * the first release's struct; name: its type. ERR_INVALID: another size. */
rg_status rg__params_read(const char *name, const void *params, size_t least,
                          void *to, size_t room);

#endif
