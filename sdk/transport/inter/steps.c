/* Where the data of a step lie in a large operation over several hosts
 * (pipeline.c). */
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

char *rg__step_data(const rg__native *c, int lane, uint32_t step)
{
    const bool is_roots = c->coll.kind == RG__BROADCAST && c->root >= 0;
    const int m = is_roots ? c->root : lane;
    return c->inter->pipeline.is_direct
               ? c->member[m].to + rg__step_begin(c, step)
               : rg__shm_slot(c, m, step);
}

void rg__step_slice(const rg__native *c, uint32_t step, int lane,
                    size_t *begin_p, size_t *end_p)
{
    rg__vault_slice(rg__step_bytes(c, step), (uint32_t)lane,
                    (uint32_t)c->inter->topology.lanes, begin_p, end_p);
}

/* A lane's slot has its own data first, then the slices of all members, host by
 * host. */
char *rg__step_slices(const rg__native *c, int lane, uint32_t step, int host)
{
    const rg__inter *x = c->inter;
    const size_t lines = x->pipeline.step_bytes / RG__LINE;
    const size_t lanes = (size_t)x->topology.lanes;
    const size_t most = (lines + lanes - 1) / lanes * RG__LINE;
    return rg__shm_slot(c, lane, step) + x->pipeline.step_bytes +
           (size_t)x->topology.begin[host] * most;
}
