/* Where a step's data lie in a large operation over hosts (pipeline.c). */
#include "sdk/transport/inter/inter.h"

/* In a staged allreduce a rail sums in its own user's memory. */
char *rg__step_data(const rg__native *c, int rail, uint32_t step)
{
    if (c->coll.kind == RG__ALLREDUCE && rail == c->rank &&
        !c->inter->pipeline.is_zero_copy)
        return (char *)c->coll.recv + rg__step_begin(c, step);
    const bool is_roots = c->coll.kind == RG__BROADCAST && c->root >= 0;
    const int m = is_roots ? c->root : rail;
    return c->inter->pipeline.is_zero_copy
               ? c->member[m].to + rg__step_begin(c, step)
               : rg__shm_slot(c, m, step);
}

/* A rail's slot has its own data first, then the slices of all members, host by
 * host; if all are alone, the data of each lie in the result. */
char *rg__step_slices(const rg__native *c, int rail, uint32_t step, int host)
{
    const rg__inter *x = c->inter;
    if (x->pipeline.is_zero_copy)
        return (char *)c->coll.recv +
               (uint64_t)rg__topology_member(&x->topology, host, 0) * c->bytes +
               rg__step_begin(c, step);
    const size_t lines = c->step_bytes / RG__LINE;
    const size_t rails = (size_t)x->topology.rails;
    const size_t most = (lines + rails - 1) / rails * RG__LINE;
    return rg__shm_slot(c, rail, step) + c->step_bytes +
           (size_t)x->topology.begin[host] * most;
}
