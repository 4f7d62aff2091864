/* Making a set, by agreement over the world: each rank contributes a digest of
 * its arguments (a difference is ERR_MISMATCH, even when some are bad), an id
 * in the lowest place that is free on it, and the id of the live set that has
 * the name. rg_set_destroy is local, so a rank may still hold a set that others
 * have given back: then its place differs, and another round starts from the
 * highest. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "process_sets/set_request.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

#define NO_MEMORY (INT64_C(1) << 41) /* instead of a proposal */

rg_status rg__set_request_resolve(rg__set_request *w)
{
    w->member = malloc(sizeof *w->member * (size_t)w->n);
    if (w->member == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    for (int i = 0; i < w->n; i++)
        w->member[i] = w->now.member[w->ranks[i]];
    return RG_OK;
}

/* What one rank contributes to a round; later, the result over all ranks. */
typedef struct round {
    rg__proposal proposal;
    uint32_t found;  /* a live set with the name here; 0: none */
    int64_t name[2]; /* the highest and the lowest on any rank */
} round;

static rg_status agree_round(rg_ctx *ctx, const rg__set_request *w,
                             bool has_memory, round *r)
{
    rg__sets *sets = ctx->sets;
    rg__proposal *p = &r->proposal;
    rg__set_propose(ctx, p);
    pthread_mutex_lock(&sets->lock);
    const rg_set *old =
        w->name == NULL ? NULL : rg__set_find_name(sets, w->name);
    r->found = old == NULL ? 0 : old->id;
    pthread_mutex_unlock(&sets->lock);
    const int64_t in[4] = {has_memory ? p->most : NO_MEMORY, p->least, r->found,
                           -(int64_t)r->found};
    int64_t out[4];
    const rg_status st = rg__world_agree(ctx, w->what, w->tag, in, out);
    if (st == RG_ERR_MISMATCH)
        return rg__fail(RG_ERR_MISMATCH,
                        "%s was not called with the same ranks and name on "
                        "every rank of the world: %s",
                        w->what, rg_last_error());
    if (st != RG_OK)
        return st;
    p->most = out[0];
    p->least = out[1];
    r->name[0] = out[2];
    r->name[1] = -out[3];
    return p->most == NO_MEMORY
               ? rg__fail(RG_ERR_MEMORY, "a rank has no memory for a set")
               : RG_OK;
}

/* Some ranks have a set of that name and others don't. A rank that only took it
 * over from another's table drops it, unless the program holds it. */
static rg_status settle_name(rg_ctx *ctx, const rg__set_request *w,
                             const round *r)
{
    rg__sets *sets = ctx->sets;
    pthread_mutex_lock(&sets->lock);
    rg_set *old = rg__set_find(sets, r->found);
    const int64_t in[4] = {old != NULL && old->has_handle};
    if (old != NULL && !old->has_handle)
        rg__set_remove(sets, old);
    pthread_mutex_unlock(&sets->lock);
    int64_t out[4];
    const rg_status st = rg__world_agree(ctx, w->what, w->tag + 1, in, out);
    if (st == RG_OK && out[0] != 0)
        return rg__fail(RG_ERR_MISMATCH,
                        "set %s lives on some ranks and was destroyed on "
                        "others; destroy it on all of them or on none",
                        w->name);
    return st;
}

/* Each rank compares the set of that name with its own colour's members or its
 * communicator: is it the same on all ranks? */
static rg_status agree_same(rg_ctx *ctx, const rg__set_request *w,
                            bool *is_same)
{
    const int64_t in[4] = {!*is_same};
    int64_t out[4] = {0};
    const rg_status st = rg__world_agree(ctx, w->what, w->tag + 2, in, out);
    *is_same = out[0] == 0;
    return st;
}

/* A rule that could not be applied when the generation began, because a rank
 * lacked it. Table's lock held. */
static rg_status apply_now(rg_set *set, const rg__set_request *w)
{
    set->color = w->fn;
    set->color_arg = w->arg;
    if (set->opened == w->now.generation)
        return RG_OK;
    rg_status st = rg__set_replace(set, w->member, w->n);
    if (st == RG_OK)
        st = rg__set_open(set, &w->now);
    set->opened = w->now.generation;
    return st;
}

static rg_status take_old(rg_ctx *ctx, const rg__set_request *w, uint32_t id,
                          rg_set **set_p)
{
    rg__sets *sets = ctx->sets;
    rg_status st = RG_OK;
    pthread_mutex_lock(&sets->lock);
    rg_set *old = rg__set_find(sets, id);
    const bool is_open = old->kind != RULE || old->opened == w->now.generation;
    bool is_same = old->kind == w->kind &&
                   (!is_open || rg__set_asks_same(old->asked, w->asked) ||
                    (w->member != NULL && rg__set_request_has_members(w, old)));
    pthread_mutex_unlock(&sets->lock);
    st = agree_same(ctx, w, &is_same);
    if (st != RG_OK)
        return st;
    if (!is_same)
        return w->member == NULL ? rg__set_request_check_ranks(w)
                                 : rg__set_request_fail_other(w);
    pthread_mutex_lock(&sets->lock);
    old->has_handle = true;
    if (w->kind == RULE)
        st = apply_now(old, w);
    pthread_mutex_unlock(&sets->lock);
    if (st == RG_OK)
        *set_p = old;
    return st;
}

rg_status rg__set_open_new(const rg__set_request *w, rg_set *set, uint32_t id)
{
    rg__set_use_up(set->ctx->sets, id);
    set->id = id;
    set->opened = w->now.generation;
    set->asked = w->asked;
    snprintf(set->name, sizeof set->name, "set%" PRIu32, id);
    rg__set_request_fill(w, set);
    rg__channel_name(set->channel, set->name);
    return rg__set_open(set, &w->now);
}

rg_status rg__set_opened(const rg__set_request *w, rg_status st, int64_t code)
{
    if (st != RG_OK || code == 0)
        return st;
    return rg__fail((rg_status)(-(code & 255)),
                    "%s: rank %d could not open the set; its own error says "
                    "why",
                    w->what, (int)(code >> 8) - 1);
}

void rg__set_note_new(rg_ctx *ctx, const rg__set_request *w, rg_set *set)
{
    rg__sets *sets = ctx->sets;
    pthread_mutex_lock(&sets->lock);
    if (ctx->is_elastic && !ctx->is_running) /* a newcomer declares it */
        set->order = ++sets->declarations;
    rg__set_insert(sets, set);
    pthread_mutex_unlock(&sets->lock);
    rg__log(RG__DEBUG, "set", "made set %s with %d of %d ranks", set->name,
            set->n, w->now.size);
}

/* A rank may have no memory left to map, or no communicator; then the set is
 * opened on none. NULL: it is open here already. */
static rg_status open_on_all(rg_ctx *ctx, const rg__set_request *w, rg_set *set,
                             uint32_t id)
{
    rg_status st = rg__set_request_check_place(w->memory, id);
    if (st != RG_OK)
        return st; /* the same on all ranks */
    st = set == NULL ? RG_OK : rg__set_open_new(w, set, id);
    const int64_t in[4] = {rg__set_code_of(w->now.rank, st)};
    int64_t out[4];
    const rg_status agreed = rg__world_agree(ctx, w->what, w->tag + 4, in, out);
    if (agreed != RG_OK)
        return agreed;
    st = rg__set_opened(w, st, out[0]);
    if (st == RG_OK && set != NULL)
        rg__set_note_new(ctx, w, set);
    return st;
}

/* A split lives for some colours and has ended for others, which make sets
 * again under its id. *is_done_p stays false if a rank gave back a live one. */
static rg_status mend_split(rg_ctx *ctx, const rg__set_request *w,
                            const round *r, rg_set *fresh, rg_set **set_p,
                            bool *is_done_p)
{
    rg__sets *sets = ctx->sets;
    const uint32_t id = (uint32_t)r->name[0];
    pthread_mutex_lock(&sets->lock);
    rg_set *old = rg__set_find(sets, r->found);
    const int64_t in[4] = {old == NULL && rg__split_rest(sets, id) == NULL,
                           old != NULL &&
                               (old->id != id || old->kind != w->kind ||
                                !rg__set_request_has_members(w, old))};
    pthread_mutex_unlock(&sets->lock);
    int64_t out[4];
    const rg_status st = rg__world_agree(ctx, w->what, w->tag + 3, in, out);
    if (st != RG_OK || out[0] != 0)
        return st;
    *is_done_p = true;
    if (out[1] != 0)
        return rg__set_request_fail_other(w);
    if (old == NULL) {
        pthread_mutex_lock(&sets->lock);
        rg__split_drop_rest(sets, id);
        pthread_mutex_unlock(&sets->lock);
    }
    const rg_status opened =
        open_on_all(ctx, w, old == NULL ? fresh : NULL, id);
    if (opened == RG_OK)
        *set_p = old == NULL ? fresh : old;
    return opened;
}

static rg_status settle(rg_ctx *ctx, const rg__set_request *w, const round *r,
                        rg_set *fresh, rg_set **set_p, bool *is_done_p)
{
    rg_status st = RG_OK;
    if (w->kind == SPLIT)
        st = mend_split(ctx, w, r, fresh, set_p, is_done_p);
    return st == RG_OK && !*is_done_p ? settle_name(ctx, w, r) : st;
}

/* A new name. *is_done_p stays false if ranks proposed different places. */
static rg_status make_new(rg_ctx *ctx, const rg__set_request *w, const round *r,
                          rg_set *fresh, rg_set **set_p, bool *is_done_p)
{
    uint32_t id = 0;
    rg_status st = w->member == NULL ? rg__set_request_check_ranks(w)
                                     : rg__set_proposed(&r->proposal, &id);
    *is_done_p = st != RG_IN_PROGRESS;
    if (st == RG_IN_PROGRESS)
        return RG_OK;
    if (st == RG_OK)
        st = open_on_all(ctx, w, fresh, id);
    if (st == RG_OK)
        *set_p = fresh;
    return st;
}

/* A rank with bad arguments takes part too, so that no rank waits for it. */
static rg_status run_rounds(rg_ctx *ctx, const rg__set_request *w,
                            bool has_place, round *r, rg_set *fresh,
                            rg_set **set_p)
{
    const bool has_memory =
        fresh != NULL || w->is_bad || !rg__set_request_is_possible(w);
    for (;;) {
        bool is_done = false;
        rg_status st = agree_round(ctx, w, has_memory, r);
        if (st != RG_OK)
            return st;
        if (w->is_bad)
            return rg__set_request_check(w, has_place);
        if (r->name[0] != r->name[1])
            st = settle(ctx, w, r, fresh, set_p, &is_done);
        else if (r->name[0] != 0)
            return take_old(ctx, w, r->found, set_p);
        else
            st = make_new(ctx, w, r, fresh, set_p, &is_done);
        if (st != RG_OK || is_done)
            return st;
    }
}

/* fresh is the caller's until it becomes *set_p. */
static rg_status make_together(rg_ctx *ctx, const rg__set_request *w,
                               bool has_place, rg_set *fresh, rg_set **set_p)
{
    round r = {0};
    const rg_status st = run_rounds(ctx, w, has_place, &r, fresh, set_p);
    rg__set_end_proposal(ctx, &r.proposal);
    return st;
}

static rg_status create_set(rg_ctx *ctx, rg__set_request *w, rg_set **set_p)
{
    const bool has_place = set_p != NULL;
    rg_set *fresh = NULL, *set = NULL;
    if (w->kind == LISTED)
        rg__set_request_read_ranks(ctx->sets, w);
    w->tag = rg__set_request_digest(w, has_place);
    w->is_bad = rg__set_request_check(w, has_place) != RG_OK;
    if (!w->is_bad && rg__set_request_is_possible(w) &&
        (w->kind != LISTED || rg__set_request_resolve(w) == RG_OK))
        rg__set_make(ctx, w->member, w->n, &fresh);
    rg__failpoint("set.create", w->now.rank, 0, w->now.generation);
    const rg_status st = make_together(ctx, w, has_place, fresh, &set);
    if (set != fresh)
        rg__set_free(fresh);
    if (st != RG_OK)
        return st;
    *set_p = set;
    return set->is_of_device ? rg__set_connect(set) : RG_OK;
}

rg_status rg__set_request_make(rg_ctx *ctx, rg__set_request *w, rg_set **set_p)
{
    rg__set_request_take_params(w);
    rg_status st = RG_OK;
    if (w->now.member == NULL)
        st = rg__context_copy_membership(ctx, &w->now);
    if (st == RG_OK)
        st = create_set(ctx, w, set_p);
    free(w->member);
    free(w->now.member);
    return st;
}
