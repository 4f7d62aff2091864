/* Where a step's data lie in a large operation over hosts (pipeline.c). */
#include "sdk/transport/inter/inter.h"

uint64_t rg__step_begin(const rg__native *c, uint32_t step)
{
    return (uint64_t)(step - 1) * c->inter->pipeline.step_bytes;
}

size_t rg__step_bytes(const rg__native *c, uint32_t step)
{
    const uint64_t left = c->bytes - rg__step_begin(c, step);
    const size_t most = c->inter->pipeline.step_bytes;
    return left < most ? (size_t)left : most;
}

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

void rg__step_slice(const rg__native *c, uint32_t step, int rail,
                    size_t *begin_p, size_t *end_p)
{
    rg__vault_slice(rg__step_bytes(c, step), (uint32_t)rail,
                    (uint32_t)c->inter->topology.rails, begin_p, end_p);
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
    const size_t lines = x->pipeline.step_bytes / RG__LINE;
    const size_t rails = (size_t)x->topology.rails;
    const size_t most = (lines + rails - 1) / rails * RG__LINE;
    return rg__shm_slot(c, rail, step) + x->pipeline.step_bytes +
           (size_t)x->topology.begin[host] * most;
}
