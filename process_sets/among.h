/* For libregroup_mpi: a set that its members make among themselves, while other
 * ranks of the world do something else. */
#ifndef RG_SETS_AMONG_H
#define RG_SETS_AMONG_H

#include "regroup/regroup.h"
#include "sdk/base/inner.h"

/* The maximum of each number over the members. Collective over them. */
#define RG__AMONG 8
typedef rg_status (*rg__among_fn)(void *arg, const int64_t in[RG__AMONG],
                                  int64_t out[RG__AMONG]);

/* rg_set_create for n different ranks of the world, of which this is one,
 * collective over those alone: a mistake on one of them fails on all. bad:
 * RG_OK, or why this rank has no ranks. */
RG_INNER rg_status rg__set_create_among(rg_ctx *ctx, rg_status bad,
                                        const int *ranks, int n,
                                        const rg_set_params *params,
                                        rg__among_fn agree, void *arg,
                                        rg_set **set_p);

#endif
