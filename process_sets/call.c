/* The arguments of a collective: checked before anything is started. */
#include "process_sets/call.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/params.h"
#include "sdk/transport/names.h"

/* ----------------------------------------------------------- begin and end */

rg_req *rg__call_waits;

#define PARAMS_LEAST RG__PARAMS_UP_TO(rg_op_params, root)

static rg_status copy_params(rg__call *c, const rg_op_params *params)
{
    const rg_status st = rg__params_read("rg_op_params", params, PARAMS_LEAST,
                                         &c->params, sizeof c->params);
    if (st != RG_OK)
        return st;
    if (c->params.timeout_ms < 0)
        return rg__fail(RG_ERR_INVALID,
                        "%s: timeout_ms is %d; use 0 for no deadline", c->what,
                        c->params.timeout_ms);
    if (c->params.memory != RG_HOST && c->params.memory != RG_DEVICE)
        return rg__fail(RG_ERR_INVALID,
                        "%s: there is no memory %d; use RG_HOST or RG_DEVICE",
                        c->what, (int)c->params.memory);
    return RG_OK;
}

rg_status rg__call_begin(rg__call *c, const char *what, rg_set *set,
                         rg__kind kind, const rg_op_params *params,
                         rg_req **req_p)
{
    static const rg__call nothing;
    *c = nothing;
    c->what = what;
    c->set = set;
    if (set == NULL)
        return rg__fail(RG_ERR_INVALID, "%s needs a set", what);
    c->start.coll.kind = kind;
    rg_status st = copy_params(c, params);
    if (st == RG_OK && req_p == NULL && c->params.memory != RG_DEVICE)
        st = rg__fail(RG_ERR_INVALID, "%s needs a place for the request", what);
    c->start.timeout_ms = c->params.timeout_ms;
    c->start.coll.tag = c->params.tag;
    return st;
}

/* Some kinds' arguments depend on the set: its size and this rank. */
static rg_status know_set(rg__call *c)
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

rg_status rg__call_end(rg__call *c, rg_status st, rg_req **req_p)
{
    if (st == RG_OK && c->params.memory == RG_DEVICE)
        return rg__set_launch(c->set, &c->start, c->params.stream, req_p);
    if (st == RG_OK && req_p == RG__WAITS)
        return rg__group_complete(c->set, &c->start);
    if (st == RG_OK)
        return rg__group_add(c->set, &c->start, req_p);
    free(c->start.arrays);
    if (c->set != NULL && c->params.memory != RG_DEVICE)
        return rg__group_refuse_call(c->set, c->what, st);
    rg__group_spoil(st);
    return st;
}

rg_status rg__call_know_size(rg__call *c)
{
    c->n = rg_set_size(c->set);
    return c->n >= 1 ? RG_OK : know_set(c);
}

rg_status rg__call_set_type(rg__call *c, rg_type type)
{
    c->element = rg_type_size(type);
    c->start.coll.type = type;
    if (c->element == 0)
        return rg__fail(RG_ERR_INVALID, "%s: there is no type %d", c->what,
                        (int)type);
    return RG_OK;
}

/* A scale of 1 changes nothing; the rooms below know it as 0 only. */
static double scale_of(double scale)
{
    return scale == 1 || scale == 0 ? 0 : scale;
}

rg_status rg__call_set_op(rg__call *c, rg_op op)
{
    if ((int)op < RG_SUM || (int)op > RG_MAXLOC)
        return rg__fail(RG_ERR_INVALID, "%s: there is no op %d", c->what,
                        (int)op);
    if (!rg_op_has(op, c->start.coll.type))
        return rg__fail(RG_ERR_INVALID,
                        "%s: op %s does not go with %s; see rg_op in regroup.h",
                        c->what, rg__op_name(op),
                        rg__type_name(c->start.coll.type));
    c->start.coll.op = op;
    c->start.coll.prescale = scale_of(c->params.prescale);
    c->start.coll.postscale = scale_of(c->params.postscale);
    if (rg__type_is_pair(c->start.coll.type) &&
        (c->start.coll.prescale != 0 || c->start.coll.postscale != 0))
        return rg__fail(RG_ERR_INVALID,
                        "%s: pairs take no scale; scale the values before or "
                        "after it",
                        c->what);
    return RG_OK;
}

rg_status rg__call_set_root(rg__call *c)
{
    const int root = c->params.root;
    if (root < 0 || root >= c->n)
        return rg__fail(RG_ERR_INVALID,
                        "%s: root %d is not a rank of set %s, which has %d",
                        c->what, root, rg_set_name(c->set), c->n);
    c->start.coll.root = root;
    return RG_OK;
}

rg_status rg__call_begin_typed(rg__call *c, const char *what, rg_set *set,
                               rg__kind kind, rg_type type,
                               const rg_op_params *params, rg_req **req_p)
{
    rg_status st = rg__call_begin(c, what, set, kind, params, req_p);
    if (st == RG_OK)
        st = rg__call_set_type(c, type);
    return st == RG_OK ? know_set(c) : st;
}

rg_status rg__call_begin_rooted(rg__call *c, const char *what, rg_set *set,
                                rg__kind kind, rg_type type,
                                const rg_op_params *params, rg_req **req_p)
{
    const rg_status st =
        rg__call_begin_typed(c, what, set, kind, type, params, req_p);
    return st == RG_OK ? rg__call_set_root(c) : st;
}

/* ----------------------------------------------------------------- buffers */

rg_status rg__call_check_host(const char *what, const void *p)
{
    return !rg__device_owns(p)
               ? RG_OK
               : rg__fail(RG_ERR_INVALID,
                          "%s on host memory got memory of a device, %p; open "
                          "the device (rg_device_open) and set memory to "
                          "RG_DEVICE where the call has params, or pass host "
                          "memory",
                          what, p);
}

rg_status rg__call_check_buffer(const rg__call *c, const void *p,
                                uint64_t count, int copies)
{
    if (count > 0 && p == NULL)
        return rg__fail(RG_ERR_INVALID, "%s of %llu elements got a NULL buffer",
                        c->what, (unsigned long long)count);
    uint64_t bytes; /* one product is faster than two divisions */
    if (__builtin_mul_overflow(count, c->element * (uint64_t)copies, &bytes) ||
        bytes > PTRDIFF_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "%s of %llu elements is more than memory holds",
                        c->what, (unsigned long long)count);
    if (bytes == 0)
        return RG_OK;
    if (c->params.memory == RG_DEVICE)
        return rg__set_check_memory(c->set, c->what, p);
    return rg__call_check_host(c->what, p);
}

static bool overlap(const char *a, uint64_t a_bytes, const char *b,
                    uint64_t b_bytes)
{
    return a_bytes > 0 && b_bytes > 0 &&
           (uintptr_t)a < (uintptr_t)b + b_bytes &&
           (uintptr_t)b < (uintptr_t)a + a_bytes;
}

static rg_status fail_overlap(const rg__call *c)
{
    return rg__fail(RG_ERR_INVALID,
                    "%s: send and recv overlap without being in place",
                    c->what);
}

rg_status rg__call_check_equal(const rg__call *c, const void *send,
                               const void *recv, uint64_t count)
{
    const uint64_t bytes = count * c->element;
    return send != recv && overlap(send, bytes, recv, bytes) ? fail_overlap(c)
                                                             : RG_OK;
}

rg_status rg__call_check_part(const rg__call *c, const char *part,
                              const char *whole, uint64_t count)
{
    const uint64_t bytes = count * c->element;
    if (part == whole + (uint64_t)c->rank * bytes ||
        !overlap(part, bytes, whole, (uint64_t)c->n * bytes))
        return RG_OK;
    return fail_overlap(c);
}

/* -------------------------------------------------------- counts and places */

rg_status rg__call_make_arrays(rg__call *c, size_t n)
{
    c->start.arrays = calloc(n * (size_t)c->n, sizeof *c->start.arrays);
    return c->start.arrays == NULL
               ? rg__fail(RG_ERR_MEMORY, "no memory for the counts of a %s",
                          c->what)
               : RG_OK;
}

static rg_status fail_large(const rg__call *c, int r)
{
    return rg__fail(RG_ERR_INVALID,
                    "%s: the part of rank %d is more than memory holds",
                    c->what, r);
}

rg_status rg__call_copy_parts(rg__call *c, int i, const uint64_t *counts,
                              const uint64_t *places, rg__parts *p)
{
    const uint64_t most = (uint64_t)PTRDIFF_MAX / c->element;
    uint64_t *to = c->start.arrays + (size_t)(2 * i * c->n);
    *p = (rg__parts){.counts = to, .places = to + c->n};
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

static const char *part_at(const rg__call *c, const void *p,
                           const rg__parts *all, int r)
{
    return (const char *)p + all->places[r] * c->element;
}

rg_status rg__call_check_apart(const rg__call *c, const char *p, uint64_t count,
                               const void *whole, const rg__parts *all)
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

rg_status rg__call_check_own_count(const rg__call *c, const rg__parts *all,
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

rg_status rg__call_take_parts(rg__call *c, const uint64_t *counts,
                              const uint64_t *places, const void *whole,
                              const void *own, uint64_t count, rg__parts *all)
{
    rg_status st = rg__call_make_arrays(c, 2);
    if (st == RG_OK)
        st = rg__call_copy_parts(c, 0, counts, places, all);
    if (st == RG_OK)
        st = rg__call_check_own_count(c, all, count);
    if (st == RG_OK)
        st = rg__call_check_buffer(c, whole, all->end, 1);
    if (st == RG_OK)
        st = rg__call_check_apart(c, own, count, whole, all);
    return st;
}

rg_status rg__call_check_pairs(const rg__call *c, const void *send,
                               const rg__parts *out, const void *recv,
                               const rg__parts *in)
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
