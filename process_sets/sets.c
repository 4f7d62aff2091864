/* Sets: making them, giving them back, and what a change of membership does to
 * them.
 *
 * A set is made by agreement over the world: everybody brings a digest of its
 * arguments (differing ones are ERR_MISMATCH, also when some are bad), the
 * lowest id that is free to it, and the id of the live set that has the name.
 * Ids rise for ever; the id is taken once all bring the same. rg_set_destroy is
 * local, so a rank may still hold what others gave back: then its ids differ
 * and another round follows from the highest. */
#include "process_sets/sets.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process_sets/inside.h"
#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/log.h"

#define NO_ID     (INT64_C(1) << 40) /* instead of an id: none is free */
#define NO_MEMORY (INT64_C(1) << 41)

/* ------------------------------------------------------------ life of a table
 */

static bool tell_late(void *arg, uint64_t generation, const char *why)
{
    rg_ctx *ctx = arg;
    (void)generation;
    return ctx->hooks != NULL && ctx->hooks->late != NULL &&
           ctx->hooks->late(ctx, why);
}

rg_status rg__sets_create(rg_ctx *ctx, rg__sets **sets_p)
{
    rg__sets *sets = calloc(1, sizeof *sets);
    if (sets == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for the table of sets");
    const rg_status st = rg__channel_create(ctx->engine, &sets->world.channel);
    if (st != RG_OK) {
        free(sets);
        return st;
    }
    pthread_mutex_init(&sets->lock, NULL);
    sets->world.ctx = ctx;
    sets->world.has_handle = true;
    snprintf(sets->world.name, sizeof sets->world.name, "world");
    rg__channel_name(sets->world.channel, "world");
    rg__engine_on_late(ctx->engine, tell_late, ctx);
    sets->next_id = 1;
    *sets_p = sets;
    return RG_OK;
}

void rg__sets_destroy(rg__sets *sets)
{
    if (sets == NULL)
        return;
    while (sets->first != NULL)
        rg__set_remove(sets, sets->first);
    for (rg_set *s = sets->declared; s != NULL; s = sets->declared) {
        rg__declared_remove(sets, s);
        rg__set_free(s);
    }
    rg__channel_destroy(sets->world.channel);
    pthread_mutex_destroy(&sets->lock);
    free(sets);
}

rg_set *rg_world(rg_ctx *ctx)
{
    return ctx == NULL ? NULL : &ctx->sets->world;
}

/* ------------------------------------------------- for Regroup's own use */

rg_status rg__world_agree(rg_ctx *ctx, uint64_t tag, const int64_t in[4],
                          int64_t out[4])
{
    const rg__coll coll = {.kind = RG__AGREE,
                           .type = RG_I64,
                           .op = RG_MAX,
                           .count = 4,
                           .send = in,
                           .recv = out,
                           .tag = tag};
    return rg__channel_run(ctx->sets->world.channel, &coll, 4 * sizeof *in,
                           4 * sizeof *out);
}

rg_status rg__world_broadcast(rg_ctx *ctx, void *data, uint64_t bytes, int root)
{
    const rg__coll coll = {.kind = RG__BROADCAST,
                           .type = RG_U8,
                           .root = root,
                           .count = bytes,
                           .recv = data};
    return rg__channel_run(ctx->sets->world.channel, &coll, 0, bytes);
}

rg_status rg__world_gather(rg_ctx *ctx, const void *mine, void *all,
                           uint64_t bytes, int size)
{
    const rg__coll coll = {.kind = RG__ALLGATHER,
                           .type = RG_U8,
                           .count = bytes,
                           .send = mine,
                           .recv = all};
    return rg__channel_run(ctx->sets->world.channel, &coll, bytes,
                           bytes * (uint64_t)size);
}

/* ------------------------------------------------------------------ making */

/* What rg_set_create was asked for; member is owned once resolved. */
typedef struct wish {
    set_kind kind;
    bool keeps;
    rg_color_fn fn; /* of a rule */
    void *arg;
    const int *ranks;
    int n;
    const rg_set_params *params; /* NULL: none */
    const char *name;            /* NULL: none */
    rg__membership now;
    rg__member_id *member;
    uint64_t tag;
} wish;

static bool has_good_size(const rg_set_params *params)
{
    return params == NULL || (params->size >= offsetof(rg_set_params, keep) &&
                              params->size <= sizeof *params);
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Of the parameters' size, if it is bad, of n, of the ranks where n can be one
 * of ranks at all, and of the name. */
static uint64_t digest(const wish *w, bool has_place)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), "rg_set_create", 13);
    hash = mix(hash, &has_place, sizeof has_place);
    hash = mix(hash, &w->kind, sizeof w->kind);
    hash = mix(hash, &w->keeps, sizeof w->keeps);
    if (!has_good_size(w->params))
        hash = mix(hash, "size", 4);
    if (w->kind == LISTED)
        hash = mix(hash, &w->n, sizeof w->n);
    if (w->ranks != NULL && w->n > 0 && w->n <= w->now.size)
        hash = mix(hash, w->ranks, sizeof *w->ranks * (size_t)w->n);
    if (w->name != NULL)
        hash = mix(hash, w->name, strnlen(w->name, 2 * RG__SET_NAME_MAX) + 1);
    return hash;
}

static rg_status check_ranks(const wish *w)
{
    if (w->ranks == NULL || w->n < 1 || w->n > w->now.size)
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_create needs 1 to %d ranks, and got %d",
                        w->now.size, w->ranks == NULL ? 0 : w->n);
    for (int i = 0; i < w->n; i++) {
        if (w->ranks[i] < 0 || w->ranks[i] >= w->now.size)
            return rg__fail(RG_ERR_INVALID,
                            "rg_set_create got rank %d, and the world has 0 to "
                            "%d",
                            w->ranks[i], w->now.size - 1);
        for (int k = 0; k < i; k++)
            if (w->ranks[k] == w->ranks[i])
                return rg__fail(RG_ERR_INVALID,
                                "rg_set_create got rank %d twice", w->ranks[i]);
    }
    return RG_OK;
}

static rg_status check_wish(const wish *w, bool has_place)
{
    if (!has_place)
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_create needs a place for the set");
    if (!has_good_size(w->params))
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_params.size is %zu; set it to "
                        "sizeof(rg_set_params)",
                        w->params->size);
    if (w->name != NULL &&
        (w->name[0] == '\0' ||
         strnlen(w->name, RG__SET_NAME_MAX) == RG__SET_NAME_MAX))
        return rg__fail(RG_ERR_INVALID,
                        "a set's name has 1 to %d bytes: \"%.40s\"",
                        RG__SET_NAME_MAX - 1, w->name);
    if (w->kind == RULE && w->fn == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_create_by needs a function");
    return w->kind == LISTED ? check_ranks(w) : RG_OK;
}

static rg_status resolve(wish *w)
{
    if (w->kind != LISTED)
        return RG_OK;
    w->member = malloc(sizeof *w->member * (size_t)w->n);
    if (w->member == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    for (int i = 0; i < w->n; i++)
        w->member[i] = w->now.member[w->ranks[i]];
    return RG_OK;
}

/* What one rank brings to a round, and what the ranks make of it. */
typedef struct round {
    uint32_t from;  /* ids below are out of the question */
    uint32_t found; /* live set with the name here, 0: none */
    int64_t id[2];  /* highest and lowest that the ranks brought */
    int64_t name[2];
} round;

static rg_status agree_round(rg_ctx *ctx, const wish *w, bool has_memory,
                             round *r)
{
    rg__sets *sets = ctx->sets;
    pthread_mutex_lock(&sets->lock);
    if (r->from < sets->next_id)
        r->from = sets->next_id;
    const uint32_t id = rg__set_free_id(sets, r->from);
    const rg_set *old =
        w->name == NULL ? NULL : rg__set_find_name(sets, w->name);
    r->found = old == NULL ? 0 : old->id;
    pthread_mutex_unlock(&sets->lock);
    const int64_t mine = !has_memory ? NO_MEMORY : id == 0 ? NO_ID : id;
    const int64_t in[4] = {mine, -mine, r->found, -(int64_t)r->found};
    int64_t out[4];
    const rg_status st = rg__world_agree(ctx, w->tag, in, out);
    if (st == RG_ERR_MISMATCH)
        return rg__fail(RG_ERR_MISMATCH,
                        "rg_set_create was not called with the same ranks and "
                        "name on every rank of the world: %s",
                        rg_last_error());
    if (st != RG_OK)
        return st;
    r->id[0] = out[0];
    r->id[1] = -out[1];
    r->name[0] = out[2];
    r->name[1] = -out[3];
    return RG_OK;
}

static rg_status check_round(const round *r)
{
    if (r->id[0] == NO_MEMORY)
        return rg__fail(RG_ERR_MEMORY, "a rank has no memory for a set");
    if (r->id[0] == NO_ID)
        return rg__fail(RG_ERR_INVALID,
                        "%d sets live already; give some back with "
                        "rg_set_destroy",
                        RG__SETS_MAX - 1);
    return RG_OK;
}

/* Some have a set of that name and others do not. Who only took it over from
 * another's table lets it go; who was given it has not destroyed it. */
static rg_status settle_name(rg_ctx *ctx, const wish *w, const round *r)
{
    rg__sets *sets = ctx->sets;
    pthread_mutex_lock(&sets->lock);
    rg_set *old = rg__set_find(sets, r->found);
    const int64_t in[4] = {old != NULL && old->has_handle};
    if (old != NULL && !old->has_handle)
        rg__set_remove(sets, old);
    pthread_mutex_unlock(&sets->lock);
    int64_t out[4];
    const rg_status st = rg__world_agree(ctx, w->tag + 1, in, out);
    if (st == RG_OK && out[0] != 0)
        return rg__fail(RG_ERR_MISMATCH,
                        "set %s lives on some ranks and was destroyed on "
                        "others; destroy it on all of them or on none",
                        w->name);
    return st;
}

static rg_status fail_other_members(const wish *w)
{
    return rg__fail(RG_ERR_INVALID,
                    "set %s lives with other members; destroy it before it is "
                    "made with these, or choose another name",
                    w->name);
}

/* Each rank compares its own colour's members: is it the same for all? */
static rg_status agree_same(rg_ctx *ctx, const wish *w, bool *is_same)
{
    const int64_t in[4] = {!*is_same};
    int64_t out[4] = {0};
    const rg_status st = rg__world_agree(ctx, w->tag + 2, in, out);
    *is_same = out[0] == 0;
    return st;
}

/* A rule that no rank could apply when the generation began, since one had not
 * got it. Table's lock held. */
static rg_status apply_now(rg_set *set, const wish *w)
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

static rg_status take_old(rg_ctx *ctx, const wish *w, uint32_t id,
                          rg_set **set_p)
{
    rg__sets *sets = ctx->sets;
    rg_status st = RG_OK;
    pthread_mutex_lock(&sets->lock);
    rg_set *old = rg__set_find(sets, id);
    const bool is_open = old->kind != RULE || old->opened == w->now.generation;
    bool is_same =
        old->kind == w->kind &&
        (!is_open ||
         (old->n == w->n && memcmp(old->member, w->member,
                                   sizeof *w->member * (size_t)w->n) == 0));
    pthread_mutex_unlock(&sets->lock);
    if (w->kind != LISTED)
        st = agree_same(ctx, w, &is_same);
    if (st != RG_OK)
        return st;
    if (!is_same)
        return fail_other_members(w);
    pthread_mutex_lock(&sets->lock);
    old->has_handle = true;
    if (w->kind == RULE)
        st = apply_now(old, w);
    pthread_mutex_unlock(&sets->lock);
    if (st == RG_OK)
        *set_p = old;
    return st;
}

static rg_status open_new(rg_ctx *ctx, const wish *w, rg_set *set, uint32_t id)
{
    rg__sets *sets = ctx->sets;
    set->id = id;
    set->kind = w->kind;
    set->keeps = w->keeps;
    set->color = w->fn;
    set->color_arg = w->arg;
    set->opened = w->now.generation;
    set->is_named = w->name != NULL;
    set->has_handle = true;
    if (w->name != NULL)
        snprintf(set->name, sizeof set->name, "%s", w->name);
    else
        snprintf(set->name, sizeof set->name, "set%" PRIu32, id);
    const rg_status st = rg__set_open(set, &w->now);
    if (st != RG_OK)
        return st;
    rg__channel_name(set->channel, set->name);
    pthread_mutex_lock(&sets->lock);
    if (sets->next_id <= id)
        sets->next_id = id + 1;
    rg__set_insert(sets, set);
    pthread_mutex_unlock(&sets->lock);
    rg__log(RG__DEBUG, "set", "made set %s with %d of %d ranks", set->name,
            set->n, w->now.size);
    return RG_OK;
}

static bool has_members(const rg_set *set, const wish *w)
{
    return set->kind == w->kind && set->n == w->n &&
           memcmp(set->member, w->member, sizeof *w->member * (size_t)w->n) ==
               0;
}

/* A split lives for some colours and has ended for others, which make theirs
 * again under the same id. *is_done_p stays false where it was given back by
 * some while it lived. */
static rg_status mend_split(rg_ctx *ctx, const wish *w, const round *r,
                            rg_set *fresh, rg_set **set_p, bool *is_done_p)
{
    rg__sets *sets = ctx->sets;
    const uint32_t id = (uint32_t)r->name[0];
    pthread_mutex_lock(&sets->lock);
    rg_set *old = rg__set_find(sets, r->found);
    const int64_t in[4] = {old == NULL && rg__split_rest(sets, id) == NULL,
                           old != NULL &&
                               (old->id != id || !has_members(old, w))};
    pthread_mutex_unlock(&sets->lock);
    int64_t out[4];
    const rg_status st = rg__world_agree(ctx, w->tag + 3, in, out);
    if (st != RG_OK || out[0] != 0)
        return st;
    *is_done_p = true;
    if (out[1] != 0)
        return fail_other_members(w);
    if (old != NULL) {
        *set_p = old;
        return RG_OK;
    }
    pthread_mutex_lock(&sets->lock);
    rg__split_drop_rest(sets, id);
    pthread_mutex_unlock(&sets->lock);
    const rg_status opened = open_new(ctx, w, fresh, id);
    if (opened == RG_OK)
        *set_p = fresh;
    return opened;
}

static rg_status settle(rg_ctx *ctx, const wish *w, const round *r,
                        rg_set *fresh, rg_set **set_p, bool *is_done_p)
{
    rg_status st = RG_OK;
    if (w->kind == SPLIT)
        st = mend_split(ctx, w, r, fresh, set_p, is_done_p);
    return st == RG_OK && !*is_done_p ? settle_name(ctx, w, r) : st;
}

/* fresh is the caller's until it has become *set_p. */
static rg_status make_together(rg_ctx *ctx, const wish *w, rg_set *fresh,
                               rg_set **set_p)
{
    for (round r = {0};; r.from = (uint32_t)r.id[0]) {
        rg_status st = agree_round(ctx, w, fresh != NULL, &r);
        if (st == RG_OK)
            st = check_round(&r);
        if (st != RG_OK)
            return st;
        if (r.name[0] != r.name[1]) {
            bool is_done = false;
            st = settle(ctx, w, &r, fresh, set_p, &is_done);
            if (st != RG_OK || is_done)
                return st;
        } else if (r.name[0] != 0) {
            return take_old(ctx, w, r.found, set_p);
        } else if (r.id[0] == r.id[1]) {
            st = open_new(ctx, w, fresh, (uint32_t)r.id[0]);
            if (st == RG_OK)
                *set_p = fresh;
            return st;
        }
    }
}

/* Bad arguments take part as well, so that nobody waits for who had them. */
static rg_status fail_together(rg_ctx *ctx, const wish *w, bool has_place)
{
    round r = {0};
    const rg_status st = agree_round(ctx, w, true, &r);
    return st == RG_OK ? check_wish(w, has_place) : st;
}

static rg_status create_set(rg_ctx *ctx, wish *w, rg_set **set_p)
{
    w->tag = digest(w, set_p != NULL);
    if (check_wish(w, set_p != NULL) != RG_OK)
        return fail_together(ctx, w, set_p != NULL);
    rg_set *fresh = NULL, *set = NULL;
    if (resolve(w) == RG_OK)
        rg__set_make(ctx, w->member, w->n, &fresh);
    rg__failpoint("set.create", w->now.rank, 0, w->now.generation);
    const rg_status st = make_together(ctx, w, fresh, &set);
    if (set != fresh)
        rg__set_free(fresh);
    if (st == RG_OK)
        *set_p = set;
    return st;
}

/* Nothing is read of parameters whose size is bad. */
static void take_params(wish *w)
{
    const rg_set_params *params = w->params;
    if (params == NULL || !has_good_size(params))
        return;
    w->name = params->name;
    w->keeps = params->size >= offsetof(rg_set_params, keep) + sizeof(int) &&
               params->keep != 0;
}

static rg_status make_wish_come_true(rg_ctx *ctx, wish *w, rg_set **set_p)
{
    take_params(w);
    rg_status st = RG_OK;
    if (w->now.member == NULL)
        st = rg__context_copy_membership(ctx, &w->now);
    if (st == RG_OK)
        st = create_set(ctx, w, set_p);
    free(w->member);
    free(w->now.member);
    return st;
}

/* --------------------------------------------------------------- declaring */

static rg_status fill_declared(rg_set *set, const wish *w)
{
    set->kind = w->kind;
    set->keeps = w->keeps;
    set->color = w->fn;
    set->color_arg = w->arg;
    set->is_named = w->name != NULL;
    set->has_handle = true;
    set->digest = w->tag;
    if (w->name != NULL)
        snprintf(set->name, sizeof set->name, "%s", w->name);
    if (w->kind != LISTED)
        return RG_OK;
    set->wanted = malloc(sizeof *set->wanted * (size_t)w->n);
    if (set->wanted == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a set");
    memcpy(set->wanted, w->ranks, sizeof *set->wanted * (size_t)w->n);
    set->wanted_n = w->n;
    return RG_OK;
}

/* Table's lock held. */
static rg_status declare_again(rg_set *old, const wish *w, rg_set **set_p)
{
    if (old->digest != w->tag)
        return fail_other_members(w);
    old->color = w->fn;
    old->color_arg = w->arg;
    *set_p = old;
    return RG_OK;
}

static rg_status declare_new(rg_ctx *ctx, const wish *w, rg_set **set_p)
{
    rg_set *set = NULL;
    rg_status st = rg__set_make(ctx, NULL, 0, &set);
    if (st != RG_OK)
        return st;
    st = fill_declared(set, w);
    if (st != RG_OK) {
        rg__set_free(set);
        return st;
    }
    rg__declared_add(ctx->sets, set);
    *set_p = set;
    return RG_OK;
}

/* Local: the world is not known yet. */
static rg_status declare(rg_ctx *ctx, wish *w, rg_set **set_p)
{
    rg__sets *sets = ctx->sets;
    take_params(w);
    w->now.size = RG__WORLD_MAX;
    rg_status st = check_wish(w, set_p != NULL);
    if (st != RG_OK)
        return st;
    w->tag = digest(w, true);
    pthread_mutex_lock(&sets->lock);
    rg_set *old = w->name == NULL ? NULL : rg__declared_find(sets, w->name);
    if (old != NULL)
        st = declare_again(old, w, set_p);
    else if (sets->declarations == RG__SETS_MAX - 1)
        st = rg__fail(RG_ERR_INVALID, "%d sets are declared already",
                      RG__SETS_MAX - 1);
    else
        st = declare_new(ctx, w, set_p);
    pthread_mutex_unlock(&sets->lock);
    return st;
}

/* ------------------------------------------------------------ public makers
 */

/* Everybody tells its colour first, also who has bad arguments otherwise. */
static rg_status create_colored(rg_ctx *ctx, wish *w, int color, int key,
                                rg_set **set_p)
{
    rg_status st = rg__context_copy_membership(ctx, &w->now);
    if (st == RG_OK)
        st = rg__color_members(ctx, &w->now, color, key, &w->member, &w->n);
    if (st != RG_OK) {
        free(w->now.member);
        return st;
    }
    return make_wish_come_true(ctx, w, set_p);
}

rg_status rg_set_create(rg_ctx *ctx, const int *ranks, int n,
                        const rg_set_params *params, rg_set **set_p)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_create needs a context");
    wish w = {.ranks = ranks, .n = n, .params = params};
    return rg__declares(ctx) ? declare(ctx, &w, set_p)
                             : make_wish_come_true(ctx, &w, set_p);
}

rg_status rg_set_destroy(rg_set *set)
{
    if (set == NULL)
        return RG_OK;
    if (rg__set_is_world(set))
        return rg__fail(RG_ERR_INVALID, "the world can't be destroyed");
    rg__sets *sets = set->ctx->sets;
    pthread_mutex_lock(&sets->lock);
    if (rg__declared_remove(sets, set))
        rg__set_free(set);
    else if (set->kind == SPLIT && set->is_ended && !set->is_over &&
             rg__set_find(sets, set->id) == NULL)
        set->has_handle = false; /* it lives for others */
    else
        rg__set_remove(sets, set);
    pthread_mutex_unlock(&sets->lock);
    return RG_OK;
}

rg_status rg_set_create_by(rg_ctx *ctx, rg_color_fn color, void *arg,
                           const rg_set_params *params, rg_set **set_p)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_create_by needs a context");
    wish w = {.kind = RULE, .fn = color, .arg = arg, .params = params};
    if (rg__declares(ctx))
        return declare(ctx, &w, set_p);
    return create_colored(
        ctx, &w, color == NULL ? RG_NO_COLOR : color(ctx, arg), 0, set_p);
}

rg_status rg_set_split(rg_ctx *ctx, int color, int key,
                       const rg_set_params *params, rg_set **set_p)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_split needs a context");
    if (rg__declares(ctx))
        return rg__fail(RG_ERR_INVALID,
                        "rg_set_split has no ranks to split before the door; "
                        "call it inside rg_run's fn, or declare a rule with "
                        "rg_set_create_by");
    wish w = {.kind = SPLIT, .params = params};
    return create_colored(ctx, &w, color, key, set_p);
}

/* ------------------------------------------------------------- generations */

rg_status rg__sets_enter(rg_ctx *ctx, const rg__transport *transport,
                         const rg__boot *boot)
{
    return rg__engine_enter(ctx->engine, ctx->sets->world.channel, transport,
                            boot);
}

void rg__sets_leave(rg_ctx *ctx, rg_status st, const char *why)
{
    rg__engine_leave(ctx->engine, st, why);
}
