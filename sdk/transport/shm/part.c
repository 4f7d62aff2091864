/* Which part of what is sent a member keeps. */
#include "sdk/transport/shm/shm_comm.h"

void rg__shm_part(const rg__native *c, int m, uint64_t *begin_p,
                  uint64_t *end_p)
{
    const rg__coll *o = &c->coll;
    uint64_t at = 0;
    for (int i = 0; i < m && o->kind == RG__REDUCE_SCATTERV; i++)
        at += o->recv_counts[i];
    if (o->kind == RG__REDUCE_SCATTER)
        at = (uint64_t)m * o->count;
    else if (o->recv_places != NULL)
        at = o->recv_places[m];
    const uint64_t count =
        o->kind == RG__REDUCE_SCATTERV ? o->recv_counts[m] : o->count;
    *begin_p = at * rg_type_size(o->type);
    *end_p = (at + count) * rg_type_size(o->type);
}
