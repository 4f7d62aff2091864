/* Sets on the device: opening it, connecting sets, and the way of an operation.
 *
 * Members meet on the set's host channel, which is fenced by its generation:
 * each contributes a card, the first also the rendezvous for NCCL. All look at
 * the same cards and come to the same answer, so they fail together. */
#include "process_sets/sets.h"

#include <stdio.h>
#include <stdlib.h>

#include "process_sets/sets_parts.h"
#include "sdk/base/clock.h"
#include "sdk/base/fail.h"
#include "sdk/base/params.h"

#define IN_FLIGHT_MOST 1024

/* ------------------------------------------------------------------ opening */

/* Without an agent, this worker alone can end the generation. */
static void tell_broken(void *arg, uint64_t generation, const char *why)
{
    rg_ctx *ctx = arg;
    if (ctx->is_alone)
        rg__device_close(ctx->device, generation, RG_ERR_DEVICE, why);
    else
        ctx->hooks->broken(ctx, generation, why);
}

static rg_status check_open(const rg_ctx *ctx)
{
    if (ctx == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_device_open needs a context");
    if (ctx->device != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_device_open was called before; a process has one "
                        "device");
    if (ctx->is_running)
        return rg__fail(RG_ERR_INVALID,
                        "rg_device_open can't be called inside rg_run; call it "
                        "before");
    return RG_OK;
}

static rg_status read_params(const rg_device_params *params,
                             rg_device_params *p)
{
    const rg_status st = rg__params_read(
        "rg_device_params", params,
        RG__PARAMS_UP_TO(rg_device_params, in_flight), p, sizeof *p);
    if (st != RG_OK)
        return st;
    if (p->max_ctas < 0 || p->init_timeout_ms < 0 || p->abort_timeout_ms < 0 ||
        p->in_flight < 0 || p->in_flight > IN_FLIGHT_MOST)
        return rg__fail(RG_ERR_INVALID,
                        "rg_device_params has a field out of range; none is "
                        "negative, and in_flight is at most %d",
                        IN_FLIGHT_MOST);
    return RG_OK;
}

/* A static program has a generation already, or one after rg_world_wait. */
static rg_status begin_now(rg_ctx *ctx)
{
    const uint64_t generation = rg__engine_generation(ctx->engine);
    return generation == 0 ? RG_OK : rg__device_enter(ctx->device, generation);
}

rg_status rg_device_open(rg_ctx *ctx, const rg_device_params *params)
{
    const rg__library_settings *settings = NULL;
    rg_device_params own = {.size = sizeof own};
    rg_status st = check_open(ctx);
    if (st == RG_OK)
        st = read_params(params, &own);
    if (st == RG_OK)
        st = rg__library_settings_get(&settings);
    if (st != RG_OK)
        return st;
    const rg__device_config config = {.params = own,
                                      .cuda_lib = settings->cuda_lib,
                                      .nccl_lib = settings->nccl_lib,
                                      .slot = ctx->slot,
                                      .stall_ms = settings->stall_ms,
                                      .broken = tell_broken,
                                      .look = rg__same_look,
                                      .arg = ctx};
    rg__device *device = NULL;
    st = rg__same_create(ctx);
    if (st == RG_OK)
        st = rg__device_create(&config, &device);
    ctx->device = device;
    return st == RG_OK ? begin_now(ctx) : st;
}

static rg_status fail_closed(const char *what)
{
    return rg__fail(RG_ERR_INVALID,
                    "%s needs a device; call rg_device_open on all workers, "
                    "before rg_run",
                    what);
}

rg_status rg_device_info_get(rg_ctx *ctx, rg_device_info *info_p)
{
    if (ctx == NULL || info_p == NULL || info_p->size != sizeof *info_p)
        return rg__fail(RG_ERR_INVALID,
                        "rg_device_info_get needs a context, and a place whose "
                        "size is sizeof(rg_device_info)");
    if (ctx->device == NULL)
        return fail_closed("rg_device_info_get");
    rg__device_info(ctx->device, info_p);
    return RG_OK;
}

/* --------------------------------------------------------------- connecting */

/* Collective over the members. */
static rg_status connect_members(rg_set *set, int n, int rank)
{
    rg_ctx *ctx = set->ctx;
    rg__device_card mine;
    rg__device_card *all = calloc((size_t)n, sizeof *all);
    if (all == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to connect a set");
    rg__device_card_make(ctx->device, n > 1 && rank == 0, ctx->host, &mine);
    rg_status st =
        rg__gather_over(set->channel, "connecting the devices of a set", &mine,
                        all, sizeof mine, n);
    if (st == RG_OK)
        st = rg__device_cards_check(all, n, rg_set_name(set));
    const rg__lane_config config = {.set = rg_set_id(set),
                                    .generation =
                                        rg__engine_generation(ctx->engine),
                                    .name = rg_set_name(set),
                                    .n = n,
                                    .rank = rank,
                                    .first = n > 1 ? all : NULL};
    if (st == RG_OK)
        st = rg__lane_open(ctx->device, &config);
    if (st == RG_OK && n > 1 && rg__set_is_world(set))
        st = rg__same_open(ctx, n);
    if (st != RG_OK)
        rg__device_card_void(&mine);
    free(all);
    return st;
}

static bool is_connected(const rg_set *set)
{
    const rg_ctx *ctx = set->ctx;
    return ctx->device != NULL &&
           rg__lane_is_open(ctx->device, rg_set_id(set),
                            rg__engine_generation(ctx->engine));
}

/* A set found again by its name is connected since rg_run began. */
rg_status rg__set_connect(rg_set *set)
{
    if (is_connected(set))
        return RG_OK;
    const int n = rg_set_size(set), rank = rg_set_rank(set);
    return rank < 0 ? RG_OK : connect_members(set, n, rank);
}

/* The ids of the sets made for the device, in the same order on all ranks; the
 * caller owns *ids_p. */
static int list_sets(rg__sets *sets, uint32_t **ids_p)
{
    int n = 0, i = 0;
    pthread_mutex_lock(&sets->lock);
    for (const rg_set *s = sets->first; s != NULL; s = s->next)
        n += s->is_of_device && !s->is_ended;
    uint32_t *ids = calloc((size_t)n + 1, sizeof *ids);
    for (const rg_set *s = sets->first; s != NULL && ids != NULL; s = s->next)
        if (s->is_of_device && !s->is_ended)
            ids[i++] = s->id;
    pthread_mutex_unlock(&sets->lock);
    *ids_p = ids;
    return ids == NULL ? -1 : n;
}

static rg_status connect_all(rg_ctx *ctx)
{
    uint32_t *ids = NULL;
    const int n = list_sets(ctx->sets, &ids);
    rg_status st =
        n < 0 ? rg__fail(RG_ERR_MEMORY, "no memory to connect sets") : RG_OK;
    for (int i = 0; i < n && st == RG_OK; i++) {
        pthread_mutex_lock(&ctx->sets->lock);
        rg_set *set = rg__set_find(ctx->sets, ids[i]);
        pthread_mutex_unlock(&ctx->sets->lock);
        if (set != NULL)
            st = rg__set_connect(set);
    }
    free(ids);
    return st;
}

/* If some ranks have a device and this one has none, it tells the others. A
 * device opened after rg_world_wait is known to its own rank only. */
rg_status rg__sets_connect(rg_ctx *ctx)
{
    rg_status st = RG_OK;
    if (!ctx->sets->has_device && ctx->device == NULL)
        return RG_OK;
    if (ctx->device != NULL)
        st = rg__device_enter(ctx->device, ctx->now.generation);
    if (st == RG_OK)
        st = rg__set_connect(&ctx->sets->world);
    return st == RG_OK ? connect_all(ctx) : st;
}

/* --------------------------------------------------------------- operations */

static rg_status await_connection(rg_set *set)
{
    const rg_status st = rg__channel_check(set->channel);
    return st == RG_OK ? rg__set_connect(set) : st;
}

/* Without a device, the launch reports it. */
rg_status rg__set_check_memory(const rg_set *set, const char *what,
                               const void *p)
{
    rg__device *device = set->ctx->device;
    const rg_status st =
        device == NULL ? RG_OK : rg__device_check_memory(device, p);
    if (st != RG_ERR_INVALID)
        return st;
    return rg__fail(st, "%s with memory RG_DEVICE: %s", what, rg_last_error());
}

rg_status rg__set_check_launch(rg_set *set, const rg__start *start,
                               void *stream, rg__launch *launch_p)
{
    const uint64_t usual = rg__engine_timeout_ms(set->ctx->engine);
    if (set->ctx->device == NULL)
        return fail_closed("an operation on device memory");
    *launch_p = (rg__launch){
        .coll = start->coll,
        .stream = stream,
        .timeout_ms = start->timeout_ms != 0 ? start->timeout_ms : (int)usual};
    return rg__launch_check(set->ctx->device, &launch_p->coll);
}

rg_status rg__set_launch_all(rg_set *set, const rg__launch *launch, int n,
                             rg__ticket *ticket_p)
{
    rg_ctx *ctx = set->ctx;
    const uint64_t generation = rg__engine_generation(ctx->engine);
    const rg_status st = await_connection(set);
    return st != RG_OK ? st
                       : rg__lane_launch(ctx->device, rg_set_id(set),
                                         generation, launch, n, ticket_p);
}

static rg_status launch_now(rg_set *set, const rg__start *start, void *stream,
                            rg_req **req_p)
{
    rg__launch one;
    rg__ticket ticket;
    rg_status st = rg__set_check_launch(set, start, stream, &one);
    if (st == RG_OK)
        st = rg__set_launch_all(set, &one, 1, &ticket);
    free(start->arrays);
    return st == RG_OK && req_p != NULL
               ? rg__req_of_device(set->ctx->engine, set->ctx->device, &ticket,
                                   req_p)
               : st;
}

rg_status rg__set_launch(rg_set *set, const rg__start *start, void *stream,
                         rg_req **req_p)
{
    return rg__group_is_open(set->ctx)
               ? rg__group_add_device(set, start, stream, req_p)
               : launch_now(set, start, stream, req_p);
}

static rg_status settle(rg_ctx *ctx, bool whole, uint64_t deadline)
{
    const uint64_t generation = rg__engine_generation(ctx->engine);
    const rg_status st = rg__channel_check(ctx->sets->world.channel);
    return st != RG_OK
               ? st
               : rg__device_settle(ctx->device, generation, whole, deadline);
}

rg_status rg_device_wait(rg_ctx *ctx, int timeout_ms)
{
    if (ctx == NULL || ctx->device == NULL)
        return fail_closed("rg_device_wait");
    return settle(ctx, false, rg__deadline_ns(timeout_ms));
}

rg_status rg__sets_settle(rg_ctx *ctx)
{
    return ctx->device == NULL ? RG_OK : settle(ctx, true, UINT64_MAX);
}
