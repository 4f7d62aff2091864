/* Which memory is registered, and its room in the host's vault. */
#include "elastic/state/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sdk/base/config.h"
#include "sdk/base/fail.h"
#include "sdk/base/grow.h"
#include "sdk/base/log.h"
#include "sdk/base/params.h"
#include "sdk/base/shm.h"

#define REPLICAS_MAX 15
#define BUFFER_LEAST RG__PARAMS_UP_TO(rg_buffer_params, align)

rg_status rg_state_create(rg_ctx *ctx, const rg_state_params *params,
                          rg_state **st_p)
{
    if (ctx == NULL || st_p == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_create needs a context and a place for the "
                        "state");
    rg_state_params own;
    rg_status st = rg__params_read("rg_state_params", params,
                                   RG__PARAMS_UP_TO(rg_state_params, size),
                                   &own, sizeof own);
    if (st != RG_OK)
        return st;
    rg_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for a state");
    state->ctx = ctx;
    state->vault_slot = -1;
    state->slots = 2;
    const rg__library_settings *settings = NULL;
    const bool is_first = ctx->history_start == 0;
    if (is_first)
        ctx->history_start = ctx->me.start;
    st = rg__library_settings_get(&settings);
    if (st == RG_OK)
        st = rg__state_check_read(settings->check_state, &state->check);
    if (st == RG_OK)
        st = rg__history_open(ctx->history, ctx->host, ctx->slot,
                              &ctx->history_start, is_first, &state->history);
    if (st != RG_OK) {
        free(state);
        return st;
    }
    *st_p = state;
    return RG_OK;
}

static void unmap_room(rg__state_buffer *b)
{
    rg__shm_unmap(b->vault, b->room);
    rg__state_unmap_cell(b);
    b->vault = NULL;
    b->fd = -1;
}

void rg_state_destroy(rg_state *state)
{
    if (state == NULL)
        return;
    if (state->is_run && rg__context_is_inside_fn(state->ctx)) {
        rg__log(RG__ERROR, "state",
                "rg_state_destroy was called inside fn and does nothing; call "
                "it when rg_run has returned");
        return;
    }
    if (state->abandon != NULL)
        state->abandon(state);
    if (state->is_resumed) {
        state->ctx->finish_st = rg__state_finish(state);
        state->ctx->has_finished = true;
        rg__state_note_leave(state);
        state->ctx->resumed = NULL;
    }
    rg__state_forget_ahead(state);
    for (int i = 0; i < state->buffers; i++)
        unmap_room(&state->buffer[i]);
    rg__history_close(state->history);
    free(state->buffer);
    free(state->dir);
    free(state);
}

static rg_status check_params(const char *name, const rg_buffer_params *p)
{
    const bool has_parts = p->kind == RG_SHARDED || p->kind == RG_LOCAL;
    if (has_parts ? p->replicas < 0 || p->replicas > REPLICAS_MAX
                  : p->kind != RG_REPLICATED || p->replicas != 0)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s: its kind must be RG_REPLICATED, or "
                        "RG_SHARDED or RG_LOCAL with 0 to %d replicas; a "
                        "replicated one has none",
                        name, REPLICAS_MAX);
    if (p->align != 0 && p->kind != RG_SHARDED)
        return rg__fail(
            RG_ERR_INVALID,
            "buffer %s: only a sharded buffer is cut, and has align", name);
    if (p->may_differ && has_parts)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s: each rank has its own part of a sharded "
                        "buffer; only a replicated one can have may_differ",
                        name);
    if (p->redistribute != NULL && p->kind != RG_LOCAL)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s: only a local buffer is redistributed",
                        name);
    return RG_OK;
}

/* Failures below don't know the buffer. */
static rg_status name_buffer(rg_status st, const char *name)
{
    char start[RG__BUFFER_NAME_MAX + 8];
    const char *text = rg_last_error();
    snprintf(start, sizeof start, "buffer %s", name);
    if (st == RG_OK || strncmp(text, start, strlen(start)) == 0)
        return st;
    return rg__fail(st, "%s can't be registered: %s", start, text);
}

static rg_status check_bytes(const char *name, const void *data, size_t bytes,
                             rg_buffer_kind kind)
{
    if (kind == RG_LOCAL)
        return rg__state_check_local(name, data, bytes);
    if (data == NULL || bytes == 0 || bytes > RG__BUFFER_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s has %zu bytes at %p; register memory of 1 "
                        "byte to 256 TiB",
                        name, bytes, data);
    return RG_OK;
}

/* Also takes the caller's params. */
static rg_status check_add(const rg_state *state, const char *name,
                           const void *data, size_t bytes,
                           const rg_buffer_params *params,
                           rg_buffer_params *own)
{
    if (state == NULL || name == NULL)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_add needs a state and a name");
    if (state->ctx->is_running || state->ctx->resumed != NULL ||
        state->dealt != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s can't be registered inside rg_run or behind "
                        "rg_state_resume; register it before",
                        name);
    if (strlen(name) >= RG__BUFFER_NAME_MAX || name[0] == '\0')
        return rg__fail(RG_ERR_INVALID,
                        "the buffer name \"%s\" must have 1 to %d bytes", name,
                        RG__BUFFER_NAME_MAX - 1);
    rg_status st = rg__params_read("rg_buffer_params", params, BUFFER_LEAST,
                                   own, sizeof *own);
    if (st == RG_OK)
        st = check_params(name, own);
    if (st == RG_OK)
        st = check_bytes(name, data, bytes, own->kind);
    if (st == RG_OK)
        st = rg__state_check_memory(state->ctx, data, own->memory);
    if (st != RG_OK)
        return name_buffer(st, name);
    const rg__state_buffer *other = rg__state_find(state, name);
    if (other != NULL)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s is registered already, with %zu bytes; "
                        "give each buffer its own name",
                        name, other->bytes);
    if (state->buffers == RG__BUFFERS_MAX)
        return rg__fail(RG_ERR_INVALID,
                        "buffer %s is one too many; at most %d can be "
                        "registered, so join small ones",
                        name, RG__BUFFERS_MAX);
    return RG_OK;
}

/* A local one is mapped only once this worker has a rank. Pages of replicated
 * ones are touched here, where no rank waits yet, and not in first commits. */
static rg_status map_room(rg_state *state, rg__state_buffer *b)
{
    void *at = NULL;
    b->room = b->stride * (size_t)state->slots;
    rg_status st = rg__state_ask_room(state, b, b->bytes);
    if (st == RG_OK && b->fd >= 0 && !b->is_local)
        st = rg__shm_map_at(b->fd, b->place, b->room, &at);
    b->vault = at;
    if (at != NULL && !b->is_sharded)
        rg__shm_touch(at, b->room);
    return st;
}

/* A buffer with copied shards adds a vault slot, for all buffers. */
static rg_status grow_vault(rg_state *state)
{
    rg_status st = RG_OK;
    if (state->slots == RG__VAULT_SLOTS)
        return RG_OK;
    state->slots = RG__VAULT_SLOTS;
    for (int i = 0; i < state->buffers && st == RG_OK; i++) {
        unmap_room(&state->buffer[i]);
        st = map_room(state, &state->buffer[i]);
    }
    return st;
}

static rg__state_buffer describe(const char *name, void *data, size_t bytes,
                                 const rg_buffer_params *params)
{
    rg__state_buffer b = {.data = data,
                          .bytes = bytes,
                          .stride = rg__vault_stride(bytes),
                          .may_differ = params->may_differ != 0,
                          .is_constant = params->constant != 0,
                          .fd = -1};
    snprintf(b.name, sizeof b.name, "%s", name);
    if (params->kind == RG_SHARDED) {
        b.is_sharded = true;
        b.replicas = (uint32_t)params->replicas;
        b.align = params->align != 0 ? params->align : RG__LINE;
    } else if (params->kind == RG_LOCAL) {
        b.is_sharded = b.is_local = true;
        b.replicas = (uint32_t)params->replicas;
        b.align = RG__CELL_BYTES;
        b.stride = rg__vault_stride(RG__BUFFER_MAX);
        b.redistribute = params->redistribute;
        b.redistribute_arg = params->redistribute_arg;
    }
    return b;
}

rg_status rg_state_add(rg_state *state, const char *name, void *data,
                       size_t bytes, const rg_buffer_params *params)
{
    rg_buffer_params own = {.size = sizeof own};
    rg_status st = check_add(state, name, data, bytes, params, &own);
    if (st != RG_OK)
        return st;
    rg__state_buffer *b =
        rg__grow(&state->buffer, (size_t)state->buffers, sizeof *b);
    if (b == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory to register buffer %s", name);
    *b = describe(name, data, bytes, &own);
    if (own.memory == RG_DEVICE) {
        b->device = state->ctx->device;
        b->there = data;
        b->data = NULL;
    }
    if (b->replicas > 0)
        st = grow_vault(state);
    if (st == RG_OK)
        st = map_room(state, b);
    if (st != RG_OK) {
        unmap_room(b);
        return name_buffer(st, name);
    }
    state->has_shards = state->has_shards || b->is_sharded;
    state->has_local = state->has_local || b->is_local;
    state->has_copies = state->has_copies || b->replicas > 0;
    state->buffers++;
    return RG_OK;
}

uint64_t rg__state_registered(const rg_state *state)
{
    rg__hash hash;
    rg__hash_begin(&hash);
    for (int i = 0; i < state->buffers; i++) {
        const rg__state_buffer *b = &state->buffer[i];
        const uint64_t numbers[] = {b->is_local ? 0 : b->bytes,
                                    b->is_sharded,
                                    b->replicas,
                                    b->align,
                                    b->may_differ,
                                    b->is_constant,
                                    b->redistribute != NULL};
        rg__hash_update(&hash, b->name, sizeof b->name);
        rg__hash_update(&hash, numbers, sizeof numbers);
    }
    return rg__hash_value(&hash);
}

rg_status rg_state_slice(const rg_state *state, const char *name,
                         size_t *begin_p, size_t *end_p)
{
    if (state == NULL || name == NULL || begin_p == NULL || end_p == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_state_slice needs a state, a name "
                                        "and places for begin and end");
    const rg__membership *now = &state->ctx->now;
    const rg__state_buffer *b = rg__state_find(state, name);
    if (b == NULL)
        return rg__fail(RG_ERR_INVALID, "no buffer named %s is registered",
                        name);
    if (now->rank < 0 || now->size < 1)
        return rg__fail(RG_ERR_INVALID,
                        "rg_state_slice belongs inside rg_run: before, this "
                        "worker has no rank");
    rg__state_slice(b, (uint32_t)now->rank, (uint32_t)now->size, begin_p,
                    end_p);
    return RG_OK;
}

rg_status rg_state_on_reset(rg_state *state, rg_reset_fn fn, void *arg)
{
    if (state == NULL)
        return rg__fail(RG_ERR_INVALID, "rg_state_on_reset needs a state");
    state->on_reset = fn;
    state->reset_arg = arg;
    return RG_OK;
}

rg_status rg_state_on_save(rg_state *state, rg_save_fn fn, void *arg)
{
    if (state == NULL || state->ctx->is_running)
        return rg__fail(RG_ERR_INVALID, "rg_state_on_save needs a state, and a "
                                        "place before rg_run");
    state->on_save = fn;
    state->save_arg = arg;
    return RG_OK;
}

rg_status rg_state_on_commit(rg_state *state, rg_commit_fn fn, void *arg)
{
    if (state == NULL || state->ctx->is_running)
        return rg__fail(RG_ERR_INVALID, "rg_state_on_commit needs a state, and "
                                        "a place before rg_run");
    state->on_commit = fn;
    state->commit_arg = arg;
    return RG_OK;
}

uint64_t rg_state_step(const rg_state *state)
{
    return state == NULL ? 0 : state->step;
}
