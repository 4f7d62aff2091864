/* The public collectives: arguments are checked by call.c, the rest is the
 * engine's. For a set that is closed (before the door, left, ended, not a
 * member) rg__channel_check returns the reason. */
#include "process_sets/call.h"
#include "sdk/base/fail.h"
#include "sdk/base/hash.h"

/* -------------------------------------------------------------- reductions */

/* The next check, unless one before it has failed. */
#define THEN(check) (st = st == RG_OK ? (check) : st)

static rg_status end(rg__call *c, rg_status st, const void *send, void *recv,
                     uint64_t count, rg_req **req_p)
{
    c->start.coll.send = send;
    c->start.coll.recv = recv;
    c->start.coll.count = count;
    return rg__call_end(c, st, req_p);
}

rg_status rg_allreduce_start(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type, rg_op op,
                             const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st =
        rg__call_begin(&c, "allreduce", set, RG__ALLREDUCE, params, req_p);
    THEN(rg__call_set_type(&c, type));
    THEN(rg__call_set_op(&c, op));
    THEN(rg__call_check_buffer(&c, send, count, 1));
    if (recv != send)
        THEN(rg__call_check_buffer(&c, recv, count, 1));
    THEN(rg__call_check_equal(&c, send, recv, count));
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_reduce_start(rg_set *set, const void *send, void *recv,
                          uint64_t count, rg_type type, rg_op op,
                          const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st = rg__call_begin_typed(&c, "reduce", set, RG__REDUCE, type,
                                        params, req_p);
    THEN(rg__call_set_op(&c, op));
    THEN(rg__call_set_root(&c));
    THEN(rg__call_check_buffer(&c, send, count, 1));
    if (c.rank == c.start.coll.root)
        THEN(rg__call_check_buffer(&c, recv, count, 1));
    if (c.rank == c.start.coll.root)
        THEN(rg__call_check_equal(&c, send, recv, count));
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_reduce_scatter_start(rg_set *set, const void *send, void *recv,
                                  uint64_t count, rg_type type, rg_op op,
                                  const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st = rg__call_begin_typed(
        &c, "reduce_scatter", set, RG__REDUCE_SCATTER, type, params, req_p);
    THEN(rg__call_set_op(&c, op));
    THEN(rg__call_check_buffer(&c, send, count, c.n));
    THEN(rg__call_check_buffer(&c, recv, count, 1));
    THEN(rg__call_check_part(&c, recv, send, count));
    return end(&c, st, send, recv, count, req_p);
}

/* All ranks must agree on the counts as well as on the caller's tag. */
static uint64_t digest(const rg__call *c, const uint64_t *counts)
{
    uint64_t hash = rg__mix(RG__MIX_BEGIN, c->params.tag);
    for (int r = 0; r < c->n; r++)
        hash = rg__mix(hash, counts[r]);
    return hash;
}

rg_status rg_reduce_scatterv_start(rg_set *set, const void *send, void *recv,
                                   const uint64_t *counts, rg_type type,
                                   rg_op op, const rg_op_params *params,
                                   rg_req **req_p)
{
    rg__call c;
    rg__parts all = {0};
    rg_status st = rg__call_begin_typed(
        &c, "reduce_scatter", set, RG__REDUCE_SCATTERV, type, params, req_p);
    THEN(rg__call_set_op(&c, op));
    THEN(rg__call_make_arrays(&c, 2));
    THEN(rg__call_copy_parts(&c, 0, counts, NULL, &all));
    THEN(rg__call_check_buffer(&c, send, all.sum, 1));
    THEN(rg__call_check_buffer(&c, recv, all.counts[c.rank], 1));
    THEN(rg__call_check_apart(&c, recv, all.counts[c.rank], send, &all));
    if (st == RG_OK)
        c.start.coll.tag = digest(&c, all.counts);
    c.start.coll.recv_counts = all.counts;
    return end(&c, st, send, recv, all.sum, req_p);
}

/* --------------------------------------------------------- one to all, back */

rg_status rg_broadcast_start(rg_set *set, void *data, uint64_t count,
                             rg_type type, const rg_op_params *params,
                             rg_req **req_p)
{
    rg__call c;
    rg_status st =
        rg__call_begin(&c, "broadcast", set, RG__BROADCAST, params, req_p);
    THEN(rg__call_set_type(&c, type));
    THEN(rg__call_know_size(&c));
    THEN(rg__call_set_root(&c));
    THEN(rg__call_check_buffer(&c, data, count, 1));
    return end(&c, st, NULL, data, count, req_p);
}

rg_status rg_gather_start(rg_set *set, const void *send, void *recv,
                          uint64_t count, rg_type type,
                          const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st = rg__call_begin_rooted(&c, "gather", set, RG__GATHER, type,
                                         params, req_p);
    THEN(rg__call_check_buffer(&c, send, count, 1));
    if (c.rank == c.start.coll.root) {
        THEN(rg__call_check_buffer(&c, recv, count, c.n));
        THEN(rg__call_check_part(&c, send, recv, count));
    }
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_gatherv_start(rg_set *set, const void *send, uint64_t count,
                           void *recv, const uint64_t *counts,
                           const uint64_t *places, rg_type type,
                           const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg__parts all = {0};
    rg_status st = rg__call_begin_rooted(&c, "gather", set, RG__GATHERV, type,
                                         params, req_p);
    THEN(rg__call_check_buffer(&c, send, count, 1));
    if (c.rank == c.start.coll.root)
        THEN(rg__call_take_parts(&c, counts, places, recv, send, count, &all));
    c.start.coll.recv_counts = all.counts;
    c.start.coll.recv_places = all.places;
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_scatter_start(rg_set *set, const void *send, void *recv,
                           uint64_t count, rg_type type,
                           const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st = rg__call_begin_rooted(&c, "scatter", set, RG__SCATTER, type,
                                         params, req_p);
    THEN(rg__call_check_buffer(&c, recv, count, 1));
    if (c.rank == c.start.coll.root) {
        THEN(rg__call_check_buffer(&c, send, count, c.n));
        THEN(rg__call_check_part(&c, recv, send, count));
    }
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_scatterv_start(rg_set *set, const void *send,
                            const uint64_t *counts, const uint64_t *places,
                            void *recv, uint64_t count, rg_type type,
                            const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg__parts all = {0};
    rg_status st = rg__call_begin_rooted(&c, "scatter", set, RG__SCATTERV, type,
                                         params, req_p);
    THEN(rg__call_check_buffer(&c, recv, count, 1));
    if (c.rank == c.start.coll.root)
        THEN(rg__call_take_parts(&c, counts, places, send, recv, count, &all));
    c.start.coll.send_counts = all.counts;
    c.start.coll.send_places = all.places;
    return end(&c, st, send, recv, count, req_p);
}

/* -------------------------------------------------------------- all to all */

rg_status rg_allgather_start(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type,
                             const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st = rg__call_begin_typed(&c, "allgather", set, RG__ALLGATHER,
                                        type, params, req_p);
    THEN(rg__call_check_buffer(&c, send, count, 1));
    THEN(rg__call_check_buffer(&c, recv, count, c.n));
    if (send != recv)
        THEN(rg__call_check_part(&c, send, recv, count));
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_allgatherv_start(rg_set *set, const void *send, uint64_t count,
                              void *recv, const uint64_t *counts,
                              const uint64_t *places, rg_type type,
                              const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg__parts all = {0};
    rg_status st = rg__call_begin_typed(&c, "allgather", set, RG__ALLGATHERV,
                                        type, params, req_p);
    THEN(rg__call_check_buffer(&c, send, count, 1));
    THEN(rg__call_make_arrays(&c, 2));
    THEN(rg__call_copy_parts(&c, 0, counts, places, &all));
    THEN(rg__call_check_own_count(&c, &all, count));
    THEN(rg__call_check_buffer(&c, recv, all.end, 1));
    THEN(rg__call_check_apart(&c, send, count, recv, &all));
    c.start.coll.recv_counts = all.counts;
    c.start.coll.recv_places = all.places;
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_alltoall_start(rg_set *set, const void *send, void *recv,
                            uint64_t count, rg_type type,
                            const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg_status st = rg__call_begin_typed(&c, "alltoall", set, RG__ALLTOALL, type,
                                        params, req_p);
    THEN(rg__call_check_buffer(&c, send, count, c.n));
    THEN(rg__call_check_buffer(&c, recv, count, c.n));
    THEN(rg__call_check_equal(&c, send, recv, (uint64_t)c.n * count));
    return end(&c, st, send, recv, count, req_p);
}

rg_status rg_alltoallv_start(rg_set *set, const void *send,
                             const uint64_t *send_counts,
                             const uint64_t *send_places, void *recv,
                             const uint64_t *recv_counts,
                             const uint64_t *recv_places, rg_type type,
                             const rg_op_params *params, rg_req **req_p)
{
    rg__call c;
    rg__parts out = {0}, in = {0};
    rg_status st = rg__call_begin_typed(&c, "alltoall", set, RG__ALLTOALLV,
                                        type, params, req_p);
    THEN(rg__call_make_arrays(&c, 4));
    THEN(rg__call_copy_parts(&c, 0, send_counts, send_places, &out));
    THEN(rg__call_copy_parts(&c, 1, recv_counts, recv_places, &in));
    if (st == RG_OK && out.counts[c.rank] != in.counts[c.rank])
        st = rg__fail(RG_ERR_INVALID,
                      "alltoall: this rank sends itself %llu elements and "
                      "receives %llu",
                      (unsigned long long)out.counts[c.rank],
                      (unsigned long long)in.counts[c.rank]);
    THEN(rg__call_check_buffer(&c, send, out.end, 1));
    THEN(rg__call_check_buffer(&c, recv, in.end, 1));
    THEN(rg__call_check_pairs(&c, send, &out, recv, &in));
    c.start.coll.send_counts = out.counts;
    c.start.coll.send_places = out.places;
    c.start.coll.recv_counts = in.counts;
    c.start.coll.recv_places = in.places;
    return end(&c, st, send, recv, 0, req_p);
}

/* ------------------------------------------------------------ without data */

rg_status rg_barrier_start(rg_set *set, const rg_op_params *params,
                           rg_req **req_p)
{
    rg__call c;
    const rg_status st =
        rg__call_begin(&c, "barrier", set, RG__BARRIER, params, req_p);
    return rg__call_end(&c, st, req_p);
}

rg_status rg_join_start(rg_set *set, int *last_p, const rg_op_params *params,
                        rg_req **req_p)
{
    rg__call c;
    const rg_status st =
        rg__call_begin(&c, "join", set, RG__JOIN, params, req_p);
    c.start.last_p = last_p;
    c.start.coll.count = 1;
    return rg__call_end(&c, st, req_p);
}
