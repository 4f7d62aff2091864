/* The collectives as regroup.h has them. */
#include "tests/bench/collectives/work.h"

static rg_status start_uneven(const work *w, rg_req **req_p)
{
    const rg_op_params at = {sizeof at, w->root};
    const uint64_t own = w->counts[w->rank];
    switch (w->kind) {
    case REDUCE_SCATTER:
        return rg_reduce_scatterv_start(w->set, w->send, w->recv, w->counts,
                                        w->type, w->redop, NULL, req_p);
    case ALLGATHER:
        return rg_allgatherv_start(w->set, w->send, own, w->recv, w->counts,
                                   NULL, w->type, NULL, req_p);
    case GATHER:
        return rg_gatherv_start(w->set, w->send, own, w->recv, w->counts, NULL,
                                w->type, &at, req_p);
    case SCATTER:
        return rg_scatterv_start(w->set, w->send, w->counts, NULL, w->recv, own,
                                 w->type, &at, req_p);
    default:
        return rg_alltoallv_start(w->set, w->send, w->counts, NULL, w->recv,
                                  w->counts, NULL, w->type, NULL, req_p);
    }
}

rg_status work_start(const work *w, rg_req **req_p)
{
    const rg_op_params at = {sizeof at, w->root};
    if (w->uneven)
        return start_uneven(w, req_p);
    switch (w->kind) {
    case ALLREDUCE:
        return rg_allreduce_start(w->set, w->send, w->recv, w->count, w->type,
                                  w->redop, NULL, req_p);
    case REDUCE:
        return rg_reduce_start(w->set, w->send, w->recv, w->count, w->type,
                               w->redop, &at, req_p);
    case REDUCE_SCATTER:
        return rg_reduce_scatter_start(w->set, w->send, w->recv, w->count,
                                       w->type, w->redop, NULL, req_p);
    case ALLGATHER:
        return rg_allgather_start(w->set, w->send, w->recv, w->count, w->type,
                                  NULL, req_p);
    case BROADCAST:
        return rg_broadcast_start(w->set, w->recv, w->count, w->type, &at,
                                  req_p);
    case GATHER:
        return rg_gather_start(w->set, w->send, w->recv, w->count, w->type, &at,
                               req_p);
    case SCATTER:
        return rg_scatter_start(w->set, w->send, w->recv, w->count, w->type,
                                &at, req_p);
    case ALLTOALL:
        return rg_alltoall_start(w->set, w->send, w->recv, w->count, w->type,
                                 NULL, req_p);
    default:
        return rg_barrier_start(w->set, NULL, req_p);
    }
}

static rg_status run_uneven(const work *w)
{
    rg_req *req = NULL;
    const rg_status st = start_uneven(w, &req);
    return st == RG_OK ? rg_wait(&req, -1) : st;
}

rg_status work_run(const work *w)
{
    if (w->uneven)
        return run_uneven(w);
    switch (w->kind) {
    case ALLREDUCE:
        return rg_allreduce(w->set, w->send, w->recv, w->count, w->type,
                            w->redop);
    case REDUCE:
        return rg_reduce(w->set, w->send, w->recv, w->count, w->type, w->redop,
                         w->root);
    case REDUCE_SCATTER:
        return rg_reduce_scatter(w->set, w->send, w->recv, w->count, w->type,
                                 w->redop);
    case ALLGATHER:
        return rg_allgather(w->set, w->send, w->recv, w->count, w->type);
    case BROADCAST:
        return rg_broadcast(w->set, w->recv, w->count, w->type, w->root);
    case GATHER:
        return rg_gather(w->set, w->send, w->recv, w->count, w->type, w->root);
    case SCATTER:
        return rg_scatter(w->set, w->send, w->recv, w->count, w->type, w->root);
    case ALLTOALL:
        return rg_alltoall(w->set, w->send, w->recv, w->count, w->type);
    default:
        return rg_barrier(w->set);
    }
}
