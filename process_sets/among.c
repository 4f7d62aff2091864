/* Making a set by agreement over its members alone. Their tables need not be
 * equal otherwise: each proposes a place that is free to it, and they take the
 * first that all have proposed. No rank has two sets in one place, which is all
 * that a transport asks for. */
#include "process_sets/among.h"

#include <stdlib.h>

#include "process_sets/set_request.h"
#include "sdk/base/fail.h"

/* What this member knows, and what all members have found out. */
typedef struct round {
    rg_status bad; /* this rank's arguments */
    rg__proposal proposal;
    uint32_t found; /* a live set of that name here; 0: none */
    bool is_other;  /* it has other members */
    int rank;       /* this process's in the world */
} round;

static void find(rg_ctx *ctx, const rg__set_request *w, round *r)
{
    pthread_mutex_lock(&ctx->sets->lock);
    const rg_set *old =
        w->name == NULL ? NULL : rg__set_find_name(ctx->sets, w->name);
    r->found = old == NULL ? 0 : old->id;
    r->is_other = old != NULL &&
                  (old->kind != LISTED || !rg__set_request_has_members(w, old));
    pthread_mutex_unlock(&ctx->sets->lock);
}

static rg_status fail_bad(const rg__set_request *w, int64_t code)
{
    return rg__fail((rg_status)(-(code & 255)),
                    "%s: on rank %d the rg_set_params are wrong, a group is "
                    "open, or there is no place or no memory for the set; its "
                    "own error says which",
                    w->what, (int)(code >> 8) - 1);
}

static rg_status judge(const rg__set_request *w, const round *r,
                       const int64_t most[RG__AMONG])
{
    if (most[0] != 0)
        return r->bad != RG_OK ? r->bad : fail_bad(w, most[0]);
    if (most[1] != -most[2])
        return rg__fail(RG_ERR_MISMATCH,
                        "%s was called with different names or rg_set_params "
                        "by the members of one communicator; give all the same",
                        w->what);
    if (most[3] != 0)
        return rg__fail(RG_ERR_INVALID,
                        "%s: set %s lives with other members on rank %d; "
                        "destroy it first, or choose another name",
                        w->what, w->name, (int)most[3] - 1);
    if (most[4] != -most[5])
        return rg__fail(RG_ERR_MISMATCH,
                        "set %s lives on some ranks and was destroyed on "
                        "others; destroy it on all of them or on none",
                        w->name);
    return RG_OK;
}

static rg_status agree(const rg__set_request *w, round *r, rg__among_fn fn,
                       void *arg)
{
    const int64_t asked = (int64_t)(w->tag >> 2);
    int64_t most[RG__AMONG];
    const int64_t in[RG__AMONG] = {rg__set_code_of(r->rank, r->bad),
                                   asked,
                                   -asked,
                                   r->is_other ? r->rank + 1 : 0,
                                   r->found,
                                   -(int64_t)r->found,
                                   r->proposal.most,
                                   r->proposal.least};
    const rg_status st = fn(arg, in, most);
    if (st != RG_OK)
        return st;
    r->proposal.most = most[6];
    r->proposal.least = most[7];
    return judge(w, r, most);
}

static rg_status take_old(rg_ctx *ctx, uint32_t id, rg_set **set_p)
{
    pthread_mutex_lock(&ctx->sets->lock);
    rg_set *old = rg__set_find(ctx->sets, id);
    if (old != NULL)
        old->has_handle = true;
    pthread_mutex_unlock(&ctx->sets->lock);
    *set_p = old;
    return old != NULL ? RG_OK
                       : rg__fail(RG_ERR_INVALID,
                                  "the set was destroyed by another thread");
}

static rg_status open_among(rg_ctx *ctx, const rg__set_request *w,
                            rg__among_fn fn, void *arg, rg_set *set,
                            uint32_t id)
{
    rg_status st = rg__set_request_check_place(w->memory, id);
    if (st != RG_OK)
        return st;
    st = rg__set_open_new(w, set, id);
    const int64_t in[RG__AMONG] = {rg__set_code_of(w->now.rank, st)};
    int64_t most[RG__AMONG];
    const rg_status agreed = fn(arg, in, most);
    if (agreed != RG_OK)
        return agreed;
    st = rg__set_opened(w, st, most[0]);
    if (st == RG_OK)
        rg__set_note_new(ctx, w, set);
    return st;
}

/* fresh is the caller's until it becomes *set_p. */
static rg_status make_among(rg_ctx *ctx, const rg__set_request *w, round *r,
                            rg__among_fn fn, void *arg, rg_set *fresh,
                            rg_set **set_p)
{
    uint32_t id = 0;
    rg_status st = RG_IN_PROGRESS;
    while (st == RG_IN_PROGRESS) {
        rg__set_propose(ctx, &r->proposal);
        st = agree(w, r, fn, arg);
        if (st != RG_OK)
            return st;
        if (r->found != 0)
            return take_old(ctx, r->found, set_p);
        st = rg__set_proposed(&r->proposal, &id);
    }
    if (st == RG_OK)
        st = open_among(ctx, w, fn, arg, fresh, id);
    if (st == RG_OK)
        *set_p = fresh;
    return st;
}

/* Reports a mistake made here to all members, so that they fail together. */
static rg_status prepare(rg_ctx *ctx, rg__set_request *w, bool has_place,
                         rg_set **fresh_p)
{
    rg_status st = rg__group_is_open(ctx)
                       ? rg__fail(RG_ERR_INVALID,
                                  "rg_set_create_mpi waits, and can't be in a "
                                  "group; call it before rg_group_start")
                       : rg__set_request_check(w, has_place);
    if (st == RG_OK)
        st = rg__context_copy_membership(ctx, &w->now);
    if (st == RG_OK)
        st = rg__set_request_resolve(w);
    if (st == RG_OK)
        st = rg__set_make(ctx, w->member, w->n, fresh_p);
    return st;
}

rg_status rg__set_create_among(rg_ctx *ctx, rg_status bad, const int *ranks,
                               int n, const rg_set_params *params,
                               rg__among_fn fn, void *arg, rg_set **set_p)
{
    rg__set_request w = {.what = "rg_set_create_mpi",
                         .kind = LISTED,
                         .ranks = ranks,
                         .n = n,
                         .params = params};
    rg_set *fresh = NULL, *set = NULL;
    round r = {.rank = rg_rank(ctx), .bad = bad};
    rg__set_request_take_params(&w);
    if (bad == RG_OK)
        w.asked = rg__set_asked(ranks, n);
    w.tag = rg__set_request_digest(&w, true);
    if (bad == RG_OK)
        r.bad = prepare(ctx, &w, set_p != NULL, &fresh);
    if (r.bad == RG_OK)
        find(ctx, &w, &r);
    const rg_status st = make_among(ctx, &w, &r, fn, arg, fresh, &set);
    if (set != fresh)
        rg__set_free(fresh);
    rg__set_end_proposal(ctx, &r.proposal);
    free(w.member);
    free(w.now.member);
    if (st != RG_OK)
        return st;
    *set_p = set;
    return set->is_of_device ? rg__set_connect(set) : RG_OK;
}
