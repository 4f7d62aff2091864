/* The public collectives: arguments are checked here, the rest is the
 * engine's. A set that is closed (before the door, left, ended, not a member)
 * says so in rg__channel_start. */
#include "process_sets/inside.h"
#include "sdk/base/fail.h"

static rg_status check_common(const char *what, const rg_set *set,
                              const rg_op_params *params, rg_req **req_p)
{
    if (set == NULL || req_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "%s needs a set and a place for the "
                        "request",
                        what);
    if (params != NULL && params->size != sizeof *params)
        return rg__fail(RG_ERR_INVALID,
                        "%s: rg_op_params.size is %zu; set it to "
                        "sizeof(rg_op_params)",
                        what, params->size);
    return RG_OK;
}

/* copies: how many times count elements lie in a buffer. */
static rg_status check_data(const char *what, const void *send,
                            const void *recv, uint64_t count, rg_type type,
                            int copies)
{
    const size_t element = rg_type_size(type);
    if (element == 0)
        return rg__fail(RG_ERR_INVALID, "%s: there is no type %d", what,
                        (int)type);
    if (count > 0 && (send == NULL || recv == NULL))
        return rg__fail(RG_ERR_INVALID, "%s of %llu elements got a NULL buffer",
                        what, (unsigned long long)count);
    if (count > (uint64_t)PTRDIFF_MAX / element / (uint64_t)copies)
        return rg__fail(RG_ERR_INVALID,
                        "%s of %llu elements is more than memory holds", what,
                        (unsigned long long)count);
    return RG_OK;
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b,
                    uint64_t b_bytes)
{
    return (uintptr_t)a < (uintptr_t)b + b_bytes &&
           (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static rg_status fail_overlap(const char *what)
{
    return rg__fail(RG_ERR_INVALID,
                    "%s: send and recv overlap without being in place", what);
}

rg_status rg_allreduce_start(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type, rg_op op,
                             const rg_op_params *params, rg_req **req_p)
{
    static const char what[] = "allreduce";
    rg_status st = check_common(what, set, params, req_p);
    if (st == RG_OK)
        st = check_data(what, send, recv, count, type, 1);
    if (st != RG_OK)
        return st;
    if ((int)op < RG_SUM || (int)op > RG_MAX)
        return rg__fail(RG_ERR_INVALID, "%s: there is no op %d", what, (int)op);
    const uint64_t bytes = count * rg_type_size(type);
    if (send != recv && overlap(send, bytes, recv, bytes))
        return fail_overlap(what);
    const rg__coll coll = {.kind = RG__ALLREDUCE,
                           .type = type,
                           .op = op,
                           .count = count,
                           .send = send,
                           .recv = recv};
    return rg__channel_start(set->channel, &coll, req_p);
}

rg_status rg_broadcast_start(rg_set *set, void *data, uint64_t count,
                             rg_type type, const rg_op_params *params,
                             rg_req **req_p)
{
    static const char what[] = "broadcast";
    rg_status st = check_common(what, set, params, req_p);
    if (st == RG_OK)
        st = check_data(what, data, data, count, type, 1);
    if (st != RG_OK)
        return st;
    const int root = params == NULL ? 0 : params->root, n = rg_set_size(set);
    if (root < 0 || (n >= 0 && root >= n))
        return rg__fail(RG_ERR_INVALID,
                        "%s: root %d is not a rank of set %s, which has %d",
                        what, root, rg_set_name(set), n);
    const rg__coll coll = {.kind = RG__BROADCAST,
                           .type = type,
                           .root = root,
                           .count = count,
                           .recv = data};
    return rg__channel_start(set->channel, &coll, req_p);
}

/* In place is send == recv, or send at this rank's place in recv. */
static rg_status check_gather(const rg_set *set, const char *send,
                              const char *recv, uint64_t bytes)
{
    const int n = rg_set_size(set), rank = rg_set_rank(set);
    if (n < 1 || rank < 0 || send == recv ||
        send == recv + (uint64_t)rank * bytes)
        return RG_OK;
    return overlap(send, bytes, recv, (uint64_t)n * bytes)
               ? fail_overlap("allgather")
               : RG_OK;
}

rg_status rg_allgather_start(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type,
                             const rg_op_params *params, rg_req **req_p)
{
    static const char what[] = "allgather";
    rg_status st = check_common(what, set, params, req_p);
    const int n = st == RG_OK ? rg_set_size(set) : 1;
    if (st == RG_OK)
        st = check_data(what, send, recv, count, type, n < 1 ? 1 : n);
    if (st == RG_OK)
        st = check_gather(set, send, recv, count * rg_type_size(type));
    if (st != RG_OK)
        return st;
    const rg__coll coll = {.kind = RG__ALLGATHER,
                           .type = type,
                           .count = count,
                           .send = send,
                           .recv = recv};
    return rg__channel_start(set->channel, &coll, req_p);
}

rg_status rg_barrier_start(rg_set *set, const rg_op_params *params,
                           rg_req **req_p)
{
    const rg_status st = check_common("barrier", set, params, req_p);
    if (st != RG_OK)
        return st;
    const rg__coll coll = {.kind = RG__BARRIER};
    return rg__channel_start(set->channel, &coll, req_p);
}
