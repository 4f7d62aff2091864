/* The sets of a worker: the table's life, the calls that make sets and give
 * them back, and what begins and ends with a generation. */
#include "process_sets/sets.h"

#include <stdio.h>
#include <stdlib.h>

#include "process_sets/set_request.h"
#include "sdk/base/fail.h"

/* ---------------------------------------------------------- life of a table */

static bool tell_overdue(void *arg, uint64_t generation, const char *why)
{
    rg_ctx *ctx = arg;
    (void)generation;
    return ctx->hooks != NULL && ctx->hooks->overdue != NULL &&
           ctx->hooks->overdue(ctx, why);
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
    rg__engine_on_overdue(ctx->engine, tell_overdue, ctx);
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
    rg__channel_destroy(sets->watch);
    rg__channel_destroy(sets->world.channel);
    pthread_mutex_destroy(&sets->lock);
    free(sets);
}

rg_set *rg_world(rg_ctx *ctx)
{
    return ctx == NULL ? NULL : &ctx->sets->world;
}

/* ------------------------------------------------------------ public makers */

/* All ranks first report their colour, even if other arguments are bad. */
static rg_status create_colored(rg_ctx *ctx, rg__set_request *w, int color,
                                int key, rg_set **set_p)
{
    rg_status st = rg__context_copy_membership(ctx, &w->now);
    if (st == RG_OK)
        st = rg__color_members(ctx, w->what, &w->now, color, key, &w->member,
                               &w->n);
    if (st != RG_OK) {
        free(w->now.member);
        return st;
    }
    return rg__set_request_make(ctx, w, set_p);
}

rg_status rg_set_create(rg_ctx *ctx, const int *ranks, int n,
                        const rg_set_params *params, rg_set **set_p)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_set_create needs a context");
    rg__set_request w = {
        .what = "rg_set_create", .ranks = ranks, .n = n, .params = params};
    return rg__declares(ctx) ? rg__set_request_declare(ctx, &w, set_p)
                             : rg__set_request_make(ctx, &w, set_p);
}

rg_status rg_set_destroy(rg_set *set)
{
    if (set == NULL)
        return RG_OK;
    if (rg__set_is_world(set))
        return rg__fail(RG_ERR_INVALID, "the world can't be destroyed");
    if (set->channel != NULL && rg__channel_has_noted(set->channel))
        return rg__fail(RG_ERR_INVALID,
                        "set %s has operations in an open group; end it with "
                        "rg_group_end before the set is destroyed",
                        set->name);
    if (atomic_load(&set->reducers) != 0)
        return rg__fail(RG_ERR_INVALID,
                        "set %s has a reducer; call rg_reducer_destroy before "
                        "the set is destroyed",
                        set->name);
    rg__sets *sets = set->ctx->sets;
    pthread_mutex_lock(&sets->lock);
    if (rg__declared_remove(sets, set))
        rg__set_free(set);
    else if (set->kind == SPLIT && set->is_ended && !set->is_over &&
             rg__set_find(sets, set->id) == NULL)
        set->has_handle = false; /* other holders keep it alive */
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
    rg__set_request w = {.what = "rg_set_create_by",
                         .kind = RULE,
                         .fn = color,
                         .arg = arg,
                         .params = params};
    if (rg__declares(ctx))
        return rg__set_request_declare(ctx, &w, set_p);
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
                        "rg_set_split has no ranks to split before rg_run; "
                        "call it inside rg_run's fn, or declare a rule with "
                        "rg_set_create_by");
    rg__set_request w = {
        .what = "rg_set_split", .kind = SPLIT, .params = params};
    return create_colored(ctx, &w, color, key, set_p);
}

/* ------------------------------------------------------------- generations */

rg_status rg__sets_enter(rg_ctx *ctx, const rg__transport *transport,
                         const rg__boot *boot)
{
    return rg__engine_enter(ctx->engine, ctx->sets->world.channel, transport,
                            boot);
}

/* Device first: threads inside NCCL leave while the host's sets are closed. */
void rg__sets_leave(rg_ctx *ctx, rg_status st, const char *why)
{
    const uint64_t generation = rg__engine_generation(ctx->engine);
    if (ctx->device != NULL && generation != 0)
        rg__device_close(ctx->device, generation, st, why);
    rg__engine_leave(ctx->engine, st, why);
}
