/* Params structs of callers: each begins with its own size, as the caller's
 * header had it, so that a newer library accepts those of older programs. A new
 * member begins at or after the size that the struct had: older programs leave
 * garbage in what was padding until then. Functions without state; any
 * thread. */
#ifndef RG_BASE_PARAMS_H
#define RG_BASE_PARAMS_H

#include <stddef.h>

#include "regroup/regroup.h"

/* The size of a struct that ended with that member. */
#define RG__PARAMS_UP_TO(type, member)                                         \
    (offsetof(type, member) + sizeof(((type *)0)->member))

/* Copy the caller's struct over `to`, of `room` bytes, which holds the
 * defaults: they stay if the caller's is shorter, or NULL. least: bytes of the
 * first release's struct; name: its type. ERR_INVALID: another size. */
rg_status rg__params_read(const char *name, const void *params, size_t least,
                          void *to, size_t room);

#endif
