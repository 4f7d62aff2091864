/* The blocking forms of the collectives: start, and wait. They are functions of
 * the library, and not of the header, so that other languages can call them. */
#include "regroup/regroup.h"

static rg_op_params at_root(int root)
{
    return (rg_op_params){.size = sizeof(rg_op_params), .root = root};
}

static rg_status complete(rg_req **req_p)
{
    const rg_status st = rg_wait(req_p, -1);
    return st == RG_IN_PROGRESS ? rg__group_refuse(req_p) : st;
}

rg_status rg_allreduce(rg_set *set, const void *send, void *recv,
                       uint64_t count, rg_type type, rg_op op)
{
    rg_req *req = NULL;
    const rg_status st =
        rg_allreduce_start(set, send, recv, count, type, op, NULL, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_reduce(rg_set *set, const void *send, void *recv, uint64_t count,
                    rg_type type, rg_op op, int root)
{
    const rg_op_params params = at_root(root);
    rg_req *req = NULL;
    const rg_status st =
        rg_reduce_start(set, send, recv, count, type, op, &params, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_reduce_scatter(rg_set *set, const void *send, void *recv,
                            uint64_t count, rg_type type, rg_op op)
{
    rg_req *req = NULL;
    const rg_status st =
        rg_reduce_scatter_start(set, send, recv, count, type, op, NULL, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_broadcast(rg_set *set, void *data, uint64_t count, rg_type type,
                       int root)
{
    const rg_op_params params = at_root(root);
    rg_req *req = NULL;
    const rg_status st =
        rg_broadcast_start(set, data, count, type, &params, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_allgather(rg_set *set, const void *send, void *recv,
                       uint64_t count, rg_type type)
{
    rg_req *req = NULL;
    const rg_status st =
        rg_allgather_start(set, send, recv, count, type, NULL, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_gather(rg_set *set, const void *send, void *recv, uint64_t count,
                    rg_type type, int root)
{
    const rg_op_params params = at_root(root);
    rg_req *req = NULL;
    const rg_status st =
        rg_gather_start(set, send, recv, count, type, &params, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_scatter(rg_set *set, const void *send, void *recv, uint64_t count,
                     rg_type type, int root)
{
    const rg_op_params params = at_root(root);
    rg_req *req = NULL;
    const rg_status st =
        rg_scatter_start(set, send, recv, count, type, &params, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_alltoall(rg_set *set, const void *send, void *recv, uint64_t count,
                      rg_type type)
{
    rg_req *req = NULL;
    const rg_status st =
        rg_alltoall_start(set, send, recv, count, type, NULL, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_barrier(rg_set *set)
{
    rg_req *req = NULL;
    const rg_status st = rg_barrier_start(set, NULL, &req);
    return st == RG_OK ? complete(&req) : st;
}

rg_status rg_join(rg_set *set, int *last_p)
{
    rg_req *req = NULL;
    const rg_status st = rg_join_start(set, last_p, NULL, &req);
    return st == RG_OK ? complete(&req) : st;
}
