/* Where the steps of a large operation lie in its data, and how a member's data
 * come into its slot (staged.c, and inter/pipeline.c over several hosts). */
#include "sdk/base/copy.h"
#include "sdk/base/least.h"
#include "sdk/transport/shm/shm_comm.h"

void rg__steps_begin(rg__native *c, size_t bytes, int slices)
{
    c->step_bytes = bytes;
    c->slices = slices;
    c->last = (uint32_t)((c->bytes + bytes - 1) / bytes);
}

uint64_t rg__step_begin(const rg__native *c, uint32_t step)
{
    return (uint64_t)(step - 1) * c->step_bytes;
}

size_t rg__step_bytes(const rg__native *c, uint32_t step)
{
    return rg__least(c->bytes - rg__step_begin(c, step), c->step_bytes);
}

void rg__step_slice(const rg__native *c, uint32_t step, int m, size_t *begin_p,
                    size_t *end_p)
{
    rg__vault_slice(rg__step_bytes(c, step), (uint32_t)m, (uint32_t)c->slices,
                    begin_p, end_p);
}

const char *rg__step_contribution(const rg__native *c, int m, uint32_t step,
                                  size_t at)
{
    return m == c->rank
               ? (const char *)c->coll.send + rg__step_begin(c, step) + at
               : rg__shm_slot(c, m, step) + at;
}

void rg__step_copy_in(rg__native *c, const void *data, bool but_mine)
{
    const uint32_t step = c->in + 1;
    const char *from = (const char *)data + rg__step_begin(c, step);
    char *slot = rg__shm_slot(c, c->rank, step);
    size_t begin = 0, end = 0;
    if (but_mine && c->rank < c->slices)
        rg__step_slice(c, step, c->rank, &begin, &end);
    rg__copy(slot, from, begin);
    rg__copy(slot + end, from + end, rg__step_bytes(c, step) - end);
    rg__shm_finish_in(c);
}
