/* The blocking forms of the collectives. They are functions of the library, and
 * not of the header, so that other languages can call them. */
#include "process_sets/call.h"

#define AT_ROOT(r) (&(rg_op_params){.size = sizeof(rg_op_params), .root = (r)})

rg_status rg_allreduce(rg_set *set, const void *send, void *recv,
                       uint64_t count, rg_type type, rg_op op)
{
    return rg_allreduce_start(set, send, recv, count, type, op, NULL,
                              RG__WAITS);
}

rg_status rg_reduce(rg_set *set, const void *send, void *recv, uint64_t count,
                    rg_type type, rg_op op, int root)
{
    return rg_reduce_start(set, send, recv, count, type, op, AT_ROOT(root),
                           RG__WAITS);
}

rg_status rg_reduce_scatter(rg_set *set, const void *send, void *recv,
                            uint64_t count, rg_type type, rg_op op)
{
    return rg_reduce_scatter_start(set, send, recv, count, type, op, NULL,
                                   RG__WAITS);
}

rg_status rg_broadcast(rg_set *set, void *data, uint64_t count, rg_type type,
                       int root)
{
    return rg_broadcast_start(set, data, count, type, AT_ROOT(root), RG__WAITS);
}

rg_status rg_allgather(rg_set *set, const void *send, void *recv,
                       uint64_t count, rg_type type)
{
    return rg_allgather_start(set, send, recv, count, type, NULL, RG__WAITS);
}

rg_status rg_gather(rg_set *set, const void *send, void *recv, uint64_t count,
                    rg_type type, int root)
{
    return rg_gather_start(set, send, recv, count, type, AT_ROOT(root),
                           RG__WAITS);
}

rg_status rg_scatter(rg_set *set, const void *send, void *recv, uint64_t count,
                     rg_type type, int root)
{
    return rg_scatter_start(set, send, recv, count, type, AT_ROOT(root),
                            RG__WAITS);
}

rg_status rg_alltoall(rg_set *set, const void *send, void *recv, uint64_t count,
                      rg_type type)
{
    return rg_alltoall_start(set, send, recv, count, type, NULL, RG__WAITS);
}

rg_status rg_barrier(rg_set *set)
{
    return rg_barrier_start(set, NULL, RG__WAITS);
}

rg_status rg_join(rg_set *set, int *last_p)
{
    return rg_join_start(set, last_p, NULL, RG__WAITS);
}
