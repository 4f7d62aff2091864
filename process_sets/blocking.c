/* The blocking forms of the collectives: start, and wait. They are functions of
 * the library, and not of the header, so that other languages can call them. */
#include "regroup/regroup.h"

#define AT_ROOT(r) (&(rg_op_params){.size = sizeof(rg_op_params), .root = (r)})

/* What was started with that status. */
static rg_status complete(rg_status st, rg_req **req_p)
{
    if (st != RG_OK)
        return st;
    st = rg_wait(req_p, -1);
    return st == RG_IN_PROGRESS ? rg__group_refuse(req_p) : st;
}

rg_status rg_allreduce(rg_set *set, const void *send, void *recv,
                       uint64_t count, rg_type type, rg_op op)
{
    rg_req *req = NULL;
    return complete(
        rg_allreduce_start(set, send, recv, count, type, op, NULL, &req), &req);
}

rg_status rg_reduce(rg_set *set, const void *send, void *recv, uint64_t count,
                    rg_type type, rg_op op, int root)
{
    rg_req *req = NULL;
    return complete(
        rg_reduce_start(set, send, recv, count, type, op, AT_ROOT(root), &req),
        &req);
}

rg_status rg_reduce_scatter(rg_set *set, const void *send, void *recv,
                            uint64_t count, rg_type type, rg_op op)
{
    rg_req *req = NULL;
    return complete(
        rg_reduce_scatter_start(set, send, recv, count, type, op, NULL, &req),
        &req);
}

rg_status rg_broadcast(rg_set *set, void *data, uint64_t count, rg_type type,
                       int root)
{
    rg_req *req = NULL;
    return complete(
        rg_broadcast_start(set, data, count, type, AT_ROOT(root), &req), &req);
}

rg_status rg_allgather(rg_set *set, const void *send, void *recv,
                       uint64_t count, rg_type type)
{
    rg_req *req = NULL;
    return complete(
        rg_allgather_start(set, send, recv, count, type, NULL, &req), &req);
}

rg_status rg_gather(rg_set *set, const void *send, void *recv, uint64_t count,
                    rg_type type, int root)
{
    rg_req *req = NULL;
    return complete(
        rg_gather_start(set, send, recv, count, type, AT_ROOT(root), &req),
        &req);
}

rg_status rg_scatter(rg_set *set, const void *send, void *recv, uint64_t count,
                     rg_type type, int root)
{
    rg_req *req = NULL;
    return complete(
        rg_scatter_start(set, send, recv, count, type, AT_ROOT(root), &req),
        &req);
}

rg_status rg_alltoall(rg_set *set, const void *send, void *recv, uint64_t count,
                      rg_type type)
{
    rg_req *req = NULL;
    return complete(rg_alltoall_start(set, send, recv, count, type, NULL, &req),
                    &req);
}

rg_status rg_barrier(rg_set *set)
{
    rg_req *req = NULL;
    return complete(rg_barrier_start(set, NULL, &req), &req);
}

rg_status rg_join(rg_set *set, int *last_p)
{
    rg_req *req = NULL;
    return complete(rg_join_start(set, last_p, NULL, &req), &req);
}
