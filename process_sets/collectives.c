/* The public collectives: arguments are checked here, the rest is the
 * engine's. A set that is closed (before the door, left, ended, not a member)
 * says so in rg__channel_check. */
#include <stdlib.h>
#include <string.h>

#include "process_sets/inside.h"
#include "sdk/base/fail.h"

/* ------------------------------------------------------------------ a call */

/* A call while its arguments are looked at. */
typedef struct call {
    const char *what;
    rg_set *set;
    int n, rank; /* of the set, once known */
    size_t element;
    rg_op_params params;
    rg__start start;
} call;

#define PARAMS_MIN offsetof(rg_op_params, timeout_ms)

/* Older programs have a shorter struct; what it lacks has its default. */
static rg_status copy_params(call *c, const rg_op_params *params)
{
    if (params == NULL)
        return RG_OK;
    if (params->size < PARAMS_MIN || params->size > sizeof *params)
        return rg__fail(RG_ERR_INVALID,
                        "%s: rg_op_params.size is %zu; set it to "
                        "sizeof(rg_op_params)",
                        c->what, params->size);
    memcpy(&c->params, params, params->size);
    if (c->params.timeout_ms < 0)
        return rg__fail(RG_ERR_INVALID,
                        "%s: timeout_ms is %d; use 0 for no deadline", c->what,
                        c->params.timeout_ms);
    return RG_OK;
}

static rg_status begin(call *c, const char *what, rg_set *set, rg__kind kind,
                       const rg_op_params *params, rg_req **req_p)
{
    static const call nothing;
    *c = nothing;
    c->what = what;
    c->set = set;
    if (set == NULL || req_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "%s needs a set and a place for the request", what);
    c->start.coll.kind = kind;
    const rg_status st = copy_params(c, params);
    c->start.timeout_ms = c->params.timeout_ms;
    return st;
}

/* Kinds whose arguments depend on the set ask for its size and my rank. */
static rg_status know_set(call *c)
{
    c->n = rg_set_size(c->set);
    c->rank = rg_set_rank(c->set);
    if (c->n >= 1 && c->rank >= 0)
        return RG_OK;
    const rg_status st = rg__channel_check(c->set->channel);
    return st != RG_OK
               ? st
               : rg__fail(RG_ERR_PEER_LOST, "the generation was left; return "
                                            "this status from fn");
}

/* Whatever has failed is a failure of the open group as well. */
static rg_status end(call *c, rg_status st, rg_req **req_p)
{
    if (st == RG_OK)
        return rg__group_add(c->set, &c->start, req_p);
    free(c->start.arrays);
    rg__group_spoil(st);
    return st;
}

/* Enough to look at a root. */
static rg_status know_size(call *c)
{
    c->n = rg_set_size(c->set);
    return c->n >= 1 ? RG_OK : know_set(c);
}

static rg_status set_type(call *c, rg_type type)
{
    c->element = rg_type_size(type);
    c->start.coll.type = type;
    if (c->element == 0)
        return rg__fail(RG_ERR_INVALID, "%s: there is no type %d", c->what,
                        (int)type);
    return RG_OK;
}

/* A scale of 1 is none, in a group's digest as well. */
static double scale_of(double scale)
{
    return scale == 1 ? 0 : scale;
}

static rg_status set_op(call *c, rg_op op)
{
    static const char *const names[] = {"SUM",  "AVG",  "MIN", "MAX",
                                        "PROD", "LAND", "LOR", "LXOR",
                                        "BAND", "BOR",  "BXOR"};
    if ((int)op < RG_SUM || (int)op > RG_BXOR)
        return rg__fail(RG_ERR_INVALID, "%s: there is no op %d", c->what,
                        (int)op);
    if (!rg_op_has(op, c->start.coll.type))
        return rg__fail(RG_ERR_INVALID,
                        "%s: op %s does not go with %s; see rg_op in regroup.h",
                        c->what, names[op],
                        c->start.coll.type == RG_BOOL ? "BOOL" : "floats");
    c->start.coll.op = op;
    c->start.coll.prescale = scale_of(c->params.prescale);
    c->start.coll.postscale = scale_of(c->params.postscale);
    return RG_OK;
}

static rg_status set_root(call *c)
{
    const int root = c->params.root;
    if (root < 0 || root >= c->n)
        return rg__fail(RG_ERR_INVALID,
                        "%s: root %d is not a rank of set %s, which has %d",
                        c->what, root, rg_set_name(c->set), c->n);
    c->start.coll.root = root;
    return RG_OK;
}

static rg_status begin_typed(call *c, const char *what, rg_set *set,
                             rg__kind kind, rg_type type,
                             const rg_op_params *params, rg_req **req_p)
{
    rg_status st = begin(c, what, set, kind, params, req_p);
    if (st == RG_OK)
        st = set_type(c, type);
    return st == RG_OK ? know_set(c) : st;
}

static rg_status begin_rooted(call *c, const char *what, rg_set *set,
                              rg__kind kind, rg_type type,
                              const rg_op_params *params, rg_req **req_p)
{
    const rg_status st = begin_typed(c, what, set, kind, type, params, req_p);
    return st == RG_OK ? set_root(c) : st;
}

/* ----------------------------------------------------------------- buffers */

/* Elements at p, `copies` times `count` of them. */
static rg_status check_buffer(const call *c, const void *p, uint64_t count,
                              int copies)
{
    if (count > 0 && p == NULL)
        return rg__fail(RG_ERR_INVALID, "%s of %llu elements got a NULL buffer",
                        c->what, (unsigned long long)count);
    uint64_t bytes; /* a product is quicker than two divisions */
    if (__builtin_mul_overflow(count, c->element * (uint64_t)copies, &bytes) ||
        bytes > PTRDIFF_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "%s of %llu elements is more than memory holds",
                        c->what, (unsigned long long)count);
    return RG_OK;
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b,
                    uint64_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 &&
           (uintptr_t)a < (uintptr_t)b + b_bytes &&
           (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static rg_status fail_overlap(const call *c)
{
    return rg__fail(RG_ERR_INVALID,
                    "%s: send and recv overlap without being in place",
                    c->what);
}

/* Two buffers, equal or apart. */
static rg_status check_equal(const call *c, const void *send, const void *recv,
                             uint64_t count)
{
    const uint64_t bytes = count * c->element;
    return send != recv && overlap(send, bytes, recv, bytes) ? fail_overlap(c)
                                                             : RG_OK;
}

/* `part` may be the `own` part of whole, else they lie apart. */
static rg_status check_part(const call *c, const char *part, uint64_t count,
                            const char *whole, uint64_t own, uint64_t all)
{
    if (part == whole + own * c->element ||
        !overlap(part, count * c->element, whole, all * c->element))
        return RG_OK;
    return fail_overlap(c);
}

/* -------------------------------------------------------- counts and places */

/* The arrays of one side of an operation. */
typedef struct parts {
    const uint64_t *counts, *places; /* copies, or computed */
    uint64_t end;                    /* of the part that ends last */
    uint64_t sum;
} parts;

/* Room for so many arrays of the set's size; owned by the start. */
static rg_status make_arrays(call *c, size_t n)
{
    c->start.arrays = calloc(n * (size_t)c->n, sizeof *c->start.arrays);
    return c->start.arrays == NULL
               ? rg__fail(RG_ERR_MEMORY, "no memory for the counts of a %s",
                          c->what)
               : RG_OK;
}

static rg_status fail_large(const call *c, int r)
{
    return rg__fail(RG_ERR_INVALID,
                    "%s: the part of rank %d is more than memory holds",
                    c->what, r);
}

/* Copy counts and places into the i-th pair of arrays. */
static rg_status copy_parts(call *c, int i, const uint64_t *counts,
                            const uint64_t *places, parts *p)
{
    const uint64_t most = (uint64_t)PTRDIFF_MAX / c->element;
    uint64_t *to = c->start.arrays + (size_t)(2 * i * c->n);
    *p = (parts){.counts = to, .places = to + c->n};
    if (counts == NULL)
        return rg__fail(RG_ERR_INVALID, "%s needs a count for each rank",
                        c->what);
    for (int r = 0; r < c->n; r++) {
        const uint64_t place = places == NULL ? p->sum : places[r];
        if (counts[r] > most || place > most - counts[r] ||
            p->sum > most - counts[r])
            return fail_large(c, r);
        to[r] = counts[r];
        to[c->n + r] = place;
        p->sum += counts[r];
        if (counts[r] > 0 && place + counts[r] > p->end)
            p->end = place + counts[r];
    }
    return RG_OK;
}

static const char *part_at(const call *c, const void *p, const parts *all,
                           int r)
{
    return (const char *)p + all->places[r] * c->element;
}

/* Does anything at `p` overlap with the parts of `all`, the own one at its own
 * place left out? */
static rg_status check_apart(const call *c, const char *p, uint64_t count,
                             const void *whole, const parts *all)
{
    if (!overlap(p, count * c->element, whole, all->end * c->element))
        return RG_OK;
    for (int r = 0; r < c->n; r++) {
        const char *at = part_at(c, whole, all, r);
        const uint64_t bytes = all->counts[r] * c->element;
        if (r == c->rank && at == p)
            continue;
        if (overlap(p, count * c->element, at, bytes))
            return fail_overlap(c);
    }
    return RG_OK;
}

static rg_status check_own_count(const call *c, const parts *all,
                                 uint64_t count)
{
    if (all->counts[c->rank] != count)
        return rg__fail(RG_ERR_INVALID,
                        "%s: this rank has %llu elements, but counts[%d] is "
                        "%llu",
                        c->what, (unsigned long long)count, c->rank,
                        (unsigned long long)all->counts[c->rank]);
    return RG_OK;
}

/* The root's, of a gather or scatter: parts in `whole`, and its own besides. */
static rg_status take_parts(call *c, const uint64_t *counts,
                            const uint64_t *places, const void *whole,
                            const void *own, uint64_t count, parts *all)
{
    rg_status st = make_arrays(c, 2);
    if (st == RG_OK)
        st = copy_parts(c, 0, counts, places, all);
    if (st == RG_OK)
        st = check_own_count(c, all, count);
    if (st == RG_OK)
        st = check_buffer(c, whole, all->end, 1);
    if (st == RG_OK)
        st = check_apart(c, own, count, whole, all);
    return st;
}

/* -------------------------------------------------------------- reductions */

static void set_data(call *c, const void *send, void *recv, uint64_t count)
{
    c->start.coll.send = send;
    c->start.coll.recv = recv;
    c->start.coll.count = count;
}

rg_status rg_allreduce_start(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type, rg_op op,
                             const rg_op_params *params, rg_req **req_p)
{
    call c;
    rg_status st = begin(&c, "allreduce", set, RG__ALLREDUCE, params, req_p);
    if (st == RG_OK)
        st = set_type(&c, type);
    if (st == RG_OK)
        st = set_op(&c, op);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, 1);
    if (st == RG_OK)
        st = check_buffer(&c, recv, count, 1);
    if (st == RG_OK)
        st = check_equal(&c, send, recv, count);
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

rg_status rg_reduce_start(rg_set *set, const void *send, void *recv,
                          uint64_t count, rg_type type, rg_op op,
                          const rg_op_params *params, rg_req **req_p)
{
    call c;
    rg_status st =
        begin_typed(&c, "reduce", set, RG__REDUCE, type, params, req_p);
    if (st == RG_OK)
        st = set_op(&c, op);
    if (st == RG_OK)
        st = set_root(&c);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, 1);
    if (st == RG_OK && c.rank == c.start.coll.root)
        st = check_buffer(&c, recv, count, 1);
    if (st == RG_OK && c.rank == c.start.coll.root)
        st = check_equal(&c, send, recv, count);
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

rg_status rg_reduce_scatter_start(rg_set *set, const void *send, void *recv,
                                  uint64_t count, rg_type type, rg_op op,
                                  const rg_op_params *params, rg_req **req_p)
{
    call c;
    rg_status st = begin_typed(&c, "reduce_scatter", set, RG__REDUCE_SCATTER,
                               type, params, req_p);
    if (st == RG_OK)
        st = set_op(&c, op);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, c.n);
    if (st == RG_OK)
        st = check_buffer(&c, recv, count, 1);
    if (st == RG_OK)
        st = check_part(&c, recv, count, send, (uint64_t)c.rank * count,
                        (uint64_t)c.n * count);
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

/* The counts are part of what must agree. */
static uint64_t digest(const call *c, const uint64_t *counts)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int r = 0; r < c->n; r++)
        hash = (hash ^ counts[r]) * UINT64_C(0x100000001b3);
    return hash;
}

rg_status rg_reduce_scatterv_start(rg_set *set, const void *send, void *recv,
                                   const uint64_t *counts, rg_type type,
                                   rg_op op, const rg_op_params *params,
                                   rg_req **req_p)
{
    call c;
    parts all = {0};
    rg_status st = begin_typed(&c, "reduce_scatter", set, RG__REDUCE_SCATTERV,
                               type, params, req_p);
    if (st == RG_OK)
        st = set_op(&c, op);
    if (st == RG_OK)
        st = make_arrays(&c, 2);
    if (st == RG_OK)
        st = copy_parts(&c, 0, counts, NULL, &all);
    if (st == RG_OK)
        st = check_buffer(&c, send, all.sum, 1);
    if (st == RG_OK)
        st = check_buffer(&c, recv, all.counts[c.rank], 1);
    if (st == RG_OK)
        st = check_apart(&c, recv, all.counts[c.rank], send, &all);
    if (st == RG_OK)
        c.start.coll.tag = digest(&c, all.counts);
    c.start.coll.recv_counts = all.counts;
    set_data(&c, send, recv, all.sum);
    return end(&c, st, req_p);
}

/* --------------------------------------------------------- one to all, back */

rg_status rg_broadcast_start(rg_set *set, void *data, uint64_t count,
                             rg_type type, const rg_op_params *params,
                             rg_req **req_p)
{
    call c;
    rg_status st = begin(&c, "broadcast", set, RG__BROADCAST, params, req_p);
    if (st == RG_OK)
        st = set_type(&c, type);
    if (st == RG_OK)
        st = know_size(&c);
    if (st == RG_OK)
        st = set_root(&c);
    if (st == RG_OK)
        st = check_buffer(&c, data, count, 1);
    set_data(&c, NULL, data, count);
    return end(&c, st, req_p);
}

rg_status rg_gather_start(rg_set *set, const void *send, void *recv,
                          uint64_t count, rg_type type,
                          const rg_op_params *params, rg_req **req_p)
{
    call c;
    rg_status st =
        begin_rooted(&c, "gather", set, RG__GATHER, type, params, req_p);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, 1);
    if (st == RG_OK && c.rank == c.start.coll.root) {
        st = check_buffer(&c, recv, count, c.n);
        if (st == RG_OK)
            st = check_part(&c, send, count, recv, (uint64_t)c.rank * count,
                            (uint64_t)c.n * count);
    }
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

rg_status rg_gatherv_start(rg_set *set, const void *send, uint64_t count,
                           void *recv, const uint64_t *counts,
                           const uint64_t *places, rg_type type,
                           const rg_op_params *params, rg_req **req_p)
{
    call c;
    parts all = {0};
    rg_status st =
        begin_rooted(&c, "gather", set, RG__GATHERV, type, params, req_p);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, 1);
    if (st == RG_OK && c.rank == c.start.coll.root)
        st = take_parts(&c, counts, places, recv, send, count, &all);
    c.start.coll.recv_counts = all.counts;
    c.start.coll.recv_places = all.places;
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

rg_status rg_scatter_start(rg_set *set, const void *send, void *recv,
                           uint64_t count, rg_type type,
                           const rg_op_params *params, rg_req **req_p)
{
    call c;
    rg_status st =
        begin_rooted(&c, "scatter", set, RG__SCATTER, type, params, req_p);
    if (st == RG_OK)
        st = check_buffer(&c, recv, count, 1);
    if (st == RG_OK && c.rank == c.start.coll.root) {
        st = check_buffer(&c, send, count, c.n);
        if (st == RG_OK)
            st = check_part(&c, recv, count, send, (uint64_t)c.rank * count,
                            (uint64_t)c.n * count);
    }
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

rg_status rg_scatterv_start(rg_set *set, const void *send,
                            const uint64_t *counts, const uint64_t *places,
                            void *recv, uint64_t count, rg_type type,
                            const rg_op_params *params, rg_req **req_p)
{
    call c;
    parts all = {0};
    rg_status st =
        begin_rooted(&c, "scatter", set, RG__SCATTERV, type, params, req_p);
    if (st == RG_OK)
        st = check_buffer(&c, recv, count, 1);
    if (st == RG_OK && c.rank == c.start.coll.root)
        st = take_parts(&c, counts, places, send, recv, count, &all);
    c.start.coll.send_counts = all.counts;
    c.start.coll.send_places = all.places;
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

/* -------------------------------------------------------------- all to all */

rg_status rg_allgather_start(rg_set *set, const void *send, void *recv,
                             uint64_t count, rg_type type,
                             const rg_op_params *params, rg_req **req_p)
{
    call c;
    rg_status st =
        begin_typed(&c, "allgather", set, RG__ALLGATHER, type, params, req_p);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, 1);
    if (st == RG_OK)
        st = check_buffer(&c, recv, count, c.n);
    if (st == RG_OK && send != recv)
        st = check_part(&c, send, count, recv, (uint64_t)c.rank * count,
                        (uint64_t)c.n * count);
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

rg_status rg_allgatherv_start(rg_set *set, const void *send, uint64_t count,
                              void *recv, const uint64_t *counts,
                              const uint64_t *places, rg_type type,
                              const rg_op_params *params, rg_req **req_p)
{
    call c;
    parts all = {0};
    rg_status st =
        begin_typed(&c, "allgather", set, RG__ALLGATHERV, type, params, req_p);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, 1);
    if (st == RG_OK)
        st = make_arrays(&c, 2);
    if (st == RG_OK)
        st = copy_parts(&c, 0, counts, places, &all);
    if (st == RG_OK)
        st = check_own_count(&c, &all, count);
    if (st == RG_OK)
        st = check_buffer(&c, recv, all.end, 1);
    if (st == RG_OK)
        st = check_apart(&c, send, count, recv, &all);
    c.start.coll.recv_counts = all.counts;
    c.start.coll.recv_places = all.places;
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

rg_status rg_alltoall_start(rg_set *set, const void *send, void *recv,
                            uint64_t count, rg_type type,
                            const rg_op_params *params, rg_req **req_p)
{
    call c;
    rg_status st =
        begin_typed(&c, "alltoall", set, RG__ALLTOALL, type, params, req_p);
    if (st == RG_OK)
        st = check_buffer(&c, send, count, c.n);
    if (st == RG_OK)
        st = check_buffer(&c, recv, count, c.n);
    if (st == RG_OK)
        st = check_equal(&c, send, recv, (uint64_t)c.n * count);
    set_data(&c, send, recv, count);
    return end(&c, st, req_p);
}

/* In place counts and places are the same on both sides. */
static rg_status check_pairs(const call *c, const void *send, const parts *out,
                             const void *recv, const parts *in)
{
    const size_t bytes = (size_t)c->n * sizeof *out->counts;
    if (send == recv && memcmp(out->counts, in->counts, bytes) == 0 &&
        memcmp(out->places, in->places, bytes) == 0)
        return RG_OK;
    if (!overlap(send, out->end * c->element, recv, in->end * c->element))
        return RG_OK;
    for (int a = 0; a < c->n; a++)
        for (int b = 0; b < c->n; b++)
            if (overlap(part_at(c, send, out, a), out->counts[a] * c->element,
                        part_at(c, recv, in, b), in->counts[b] * c->element))
                return fail_overlap(c);
    return RG_OK;
}

rg_status rg_alltoallv_start(rg_set *set, const void *send,
                             const uint64_t *send_counts,
                             const uint64_t *send_places, void *recv,
                             const uint64_t *recv_counts,
                             const uint64_t *recv_places, rg_type type,
                             const rg_op_params *params, rg_req **req_p)
{
    call c;
    parts out = {0}, in = {0};
    rg_status st =
        begin_typed(&c, "alltoall", set, RG__ALLTOALLV, type, params, req_p);
    if (st == RG_OK)
        st = make_arrays(&c, 4);
    if (st == RG_OK)
        st = copy_parts(&c, 0, send_counts, send_places, &out);
    if (st == RG_OK)
        st = copy_parts(&c, 1, recv_counts, recv_places, &in);
    if (st == RG_OK && out.counts[c.rank] != in.counts[c.rank])
        st = rg__fail(RG_ERR_INVALID,
                      "alltoall: this rank sends itself %llu elements and "
                      "receives %llu",
                      (unsigned long long)out.counts[c.rank],
                      (unsigned long long)in.counts[c.rank]);
    if (st == RG_OK)
        st = check_buffer(&c, send, out.end, 1);
    if (st == RG_OK)
        st = check_buffer(&c, recv, in.end, 1);
    if (st == RG_OK)
        st = check_pairs(&c, send, &out, recv, &in);
    c.start.coll.send_counts = out.counts;
    c.start.coll.send_places = out.places;
    c.start.coll.recv_counts = in.counts;
    c.start.coll.recv_places = in.places;
    set_data(&c, send, recv, 0);
    return end(&c, st, req_p);
}

/* ------------------------------------------------------------ without data */

rg_status rg_barrier_start(rg_set *set, const rg_op_params *params,
                           rg_req **req_p)
{
    call c;
    const rg_status st = begin(&c, "barrier", set, RG__BARRIER, params, req_p);
    return end(&c, st, req_p);
}

rg_status rg_join_start(rg_set *set, int *last_p, const rg_op_params *params,
                        rg_req **req_p)
{
    call c;
    const rg_status st = begin(&c, "join", set, RG__JOIN, params, req_p);
    c.start.last_p = last_p;
    c.start.coll.count = 1;
    return end(&c, st, req_p);
}
