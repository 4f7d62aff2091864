/* The context's membership, and the queries that answer from it. */
#include "sdk/core/context.h"

#include <stdlib.h>
#include <string.h>

#include "sdk/base/fail.h"

rg_status rg__context_init(rg_ctx *ctx)
{
    if (pthread_mutex_init(&ctx->lock, NULL) != 0)
        return rg__fail(RG_ERR_SYSTEM, "the context's lock can't be made");
    if (pthread_mutex_init(&ctx->gate, NULL) != 0) {
        pthread_mutex_destroy(&ctx->lock);
        return rg__fail(RG_ERR_SYSTEM, "the context's gate can't be made");
    }
    ctx->now = (rg__membership){.rank = -1};
    ctx->is_computing = false;
    return RG_OK;
}

void rg__context_clear(rg_ctx *ctx)
{
    free(ctx->now.member);
    ctx->now = (rg__membership){.rank = -1};
    ctx->is_computing = false;
    pthread_mutex_destroy(&ctx->gate);
    pthread_mutex_destroy(&ctx->lock);
}

/* copy->member is owned by the copy. */
static rg_status copy_membership(const rg__membership *m, rg__membership *copy)
{
    *copy = (rg__membership){.rank = -1};
    if (m->size == 0)
        return RG_OK;
    const size_t bytes = sizeof *m->member * (size_t)m->size;
    rg__member_id *member = malloc(bytes);
    if (member == NULL)
        return rg__fail(RG_ERR_MEMORY, "no memory for %d members", m->size);
    memcpy(member, m->member, bytes);
    *copy = *m;
    copy->member = member;
    return RG_OK;
}

rg_status rg__context_set_membership(rg_ctx *ctx, const rg__membership *m)
{
    rg__membership copy;
    const rg_status st = copy_membership(m, &copy);
    if (st != RG_OK)
        return st;
    pthread_mutex_lock(&ctx->lock);
    free(ctx->now.member);
    ctx->now = copy;
    pthread_mutex_unlock(&ctx->lock);
    return RG_OK;
}

bool rg__context_is_inside_fn(const rg_ctx *ctx)
{
    const char *here = __builtin_frame_address(0);
    return ctx->run_frame != NULL &&
           pthread_equal(ctx->run_thread, pthread_self()) &&
           here < ctx->run_frame;
}

void rg__context_set_computing(rg_ctx *ctx, bool is_computing)
{
    pthread_mutex_lock(&ctx->lock);
    ctx->is_computing = is_computing;
    pthread_mutex_unlock(&ctx->lock);
}

static pthread_mutex_t *lock_of(const rg_ctx *ctx)
{
    return &((rg_ctx *)(uintptr_t)ctx)->lock; /* a query changes nothing else */
}

rg_status rg__context_copy_membership(const rg_ctx *ctx, rg__membership *copy)
{
    pthread_mutex_lock(lock_of(ctx));
    const rg_status st = copy_membership(&ctx->now, copy);
    pthread_mutex_unlock(lock_of(ctx));
    return st;
}

/* ----------------------------------------------------------------- queries */

static const rg__membership nowhere = {.generation = 0,
                                       .rank = -1,
                                       .size = -1,
                                       .local_rank = -1,
                                       .local_size = -1,
                                       .host_index = -1,
                                       .host_count = -1};

/* The membership's numbers; its members are not to be touched. */
static rg__membership look(const rg_ctx *ctx)
{
    rg__membership m = nowhere;
    if (ctx == NULL)
        return m;
    pthread_mutex_lock(lock_of(ctx));
    if (ctx->is_computing)
        m = ctx->now;
    pthread_mutex_unlock(lock_of(ctx));
    return m;
}

int rg_rank(const rg_ctx *ctx)
{
    return look(ctx).rank;
}

int rg_size(const rg_ctx *ctx)
{
    return look(ctx).size;
}

int rg_local_rank(const rg_ctx *ctx)
{
    return look(ctx).local_rank;
}

int rg_local_size(const rg_ctx *ctx)
{
    return look(ctx).local_size;
}

int rg_host_index(const rg_ctx *ctx)
{
    return look(ctx).host_index;
}

int rg_host_count(const rg_ctx *ctx)
{
    return look(ctx).host_count;
}

uint64_t rg_generation(const rg_ctx *ctx)
{
    return look(ctx).generation;
}

int rg_slot(const rg_ctx *ctx)
{
    return ctx == NULL ? -1 : ctx->slot;
}

const char *rg_host(const rg_ctx *ctx)
{
    return ctx == NULL ? "" : ctx->host;
}
