/* For libregroup_mpi: sets that live here, found by name. */
#ifndef RG_SETS_HELD_H
#define RG_SETS_HELD_H

#include "regroup/regroup.h"
#include "sdk/base/inner.h"

/* The set of that name, of a list of ranks, that was not given back; NULL:
 * none. Borrowed. */
RG_INNER rg_set *rg__set_held(rg_ctx *ctx, const char *name);

#endif
