/* Between registered memory and the vault.
 *
 * Saving: each local rank copies its slice of every buffer, its piece, and
 * takes the piece's checksum from the chunks that the cache holds. Restoring:
 * each local rank copies all pieces; the ranks of a host share the work of
 * holding them against their checksums, also those that need no copy, and
 * nobody enters fn before an agreement that comes after it. A piece that is
 * damaged empties its vault slot and ends the generation, so that the next
 * decision resumes from another host's vault or from an older commit. */
#include "elastic/state/state.h"

#include <stdio.h>
#include <string.h>

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/hash.h"

#define CHUNK ((size_t)256 << 10) /* copied under the gate at a time */

static rg_status lost(void)
{
    return rg__fail(RG_ERR_PEER_LOST,
                    "a peer is lost and the generation has ended; return this "
                    "status from fn");
}

static bool is_over(const rg_ctx *ctx)
{
    return atomic_load(&ctx->page->abort) >= ctx->now.generation;
}

static size_t chunk(size_t left)
{
    return left < CHUNK ? left : CHUNK;
}

/* -------------------------------------------------------------------- save */

/* Copy under the gate, so that leaving waits for a chunk and no more. */
static rg_status copy_in(rg_ctx *ctx, char *to, const char *from, size_t bytes,
                         rg__hash *hash)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = chunk(bytes - at);
        if (is_over(ctx))
            return lost();
        pthread_mutex_lock(&ctx->gate);
        const bool open = ctx->gate_generation == ctx->now.generation;
        if (open)
            memcpy(to + at, from + at, n);
        pthread_mutex_unlock(&ctx->gate);
        if (!open)
            return lost();
        rg__hash_update(hash, from + at, n);
    }
    return RG_OK;
}

static rg_status begin_piece(rg_ctx *ctx, rg__piece *piece, rg__commit_id id)
{
    pthread_mutex_lock(&ctx->gate);
    const bool open = ctx->gate_generation == ctx->now.generation;
    if (open)
        rg__piece_begin(piece, id, (uint32_t)ctx->now.local_size);
    pthread_mutex_unlock(&ctx->gate);
    return open ? RG_OK : lost();
}

static rg_status end_piece(rg_ctx *ctx, rg__piece *piece, uint64_t sum)
{
    pthread_mutex_lock(&ctx->gate);
    const bool open = ctx->gate_generation == ctx->now.generation;
    if (open)
        rg__piece_end(piece, sum);
    pthread_mutex_unlock(&ctx->gate);
    return open ? RG_OK : lost();
}

/* A buffer's slice into the vault; its hash is added to the piece's sum. */
static rg_status save_slice(rg_ctx *ctx, const rg__state_buffer *b, int slot,
                            uint64_t *sum)
{
    size_t begin, end;
    rg__hash hash;
    rg__vault_slice(b->bytes, (uint32_t)ctx->now.local_rank,
                    (uint32_t)ctx->now.local_size, &begin, &end);
    if (begin == end)
        return RG_OK;
    rg__hash_begin_named(&hash, b->name);
    const rg_status rs =
        copy_in(ctx, b->vault + b->stride * (size_t)slot + begin,
                b->data + begin, end - begin, &hash);
    *sum += rg__hash_value(&hash);
    return rs;
}

rg_status rg__state_fill(rg_state *st, int slot, rg__commit_id id)
{
    rg_ctx *ctx = st->ctx;
    rg__piece *piece = &ctx->vault->slot[slot][ctx->now.local_rank];
    uint64_t sum = 0;
    rg_status rs = begin_piece(ctx, piece, id);
    for (int k = 0; k < st->buffers && rs == RG_OK; k++) {
        rg__failpoint("commit.copy", ctx->now.rank, id.step,
                      ctx->now.generation);
        rs = save_slice(ctx, &st->buffer[k], slot, &sum);
    }
    return rs == RG_OK ? end_piece(ctx, piece, sum) : rs;
}

/* ----------------------------------------------------------------- restore */

/* What a rank does with a piece. */
typedef struct task {
    bool copies, verifies;
    int slot;
    uint32_t index, count;
} task;

static void take_chunk(char *to, const char *from, size_t n, const task *t,
                       rg__hash *hash)
{
    if (t->copies)
        memcpy(to, from, n);
    if (t->verifies)
        rg__hash_update(hash, t->copies ? to : from, n);
}

static rg_status take_slice(const rg_ctx *ctx, const rg__state_buffer *b,
                            const task *t, uint64_t *sum)
{
    const char *vault = b->vault + b->stride * (size_t)t->slot;
    size_t begin, end;
    rg__hash hash;
    rg__vault_slice(b->bytes, t->index, t->count, &begin, &end);
    if (begin == end)
        return RG_OK;
    rg__hash_begin_named(&hash, b->name);
    for (size_t at = begin, n; at < end; at += n) {
        n = chunk(end - at);
        if (is_over(ctx))
            return lost();
        take_chunk(b->data + at, vault + at, n, t, &hash);
    }
    *sum += rg__hash_value(&hash);
    return RG_OK;
}

/* The slot may be another's once the generation is left. */
static void empty_slot(rg_ctx *ctx, int slot)
{
    pthread_mutex_lock(&ctx->gate);
    if (ctx->gate_generation == ctx->now.generation)
        rg__vault_empty(ctx->vault, slot);
    pthread_mutex_unlock(&ctx->gate);
}

static rg_status damaged(rg_ctx *ctx, rg__commit_id id, const task *t)
{
    char why[RG__TEXT_MAX];
    snprintf(why, sizeof why,
             "commit %llu.%llu in the vault of host %s is damaged: piece %u "
             "does not have its checksum",
             (unsigned long long)id.generation, (unsigned long long)id.step,
             ctx->host, t->index);
    empty_slot(ctx, t->slot);
    ctx->hooks->broken(ctx, ctx->now.generation, why);
    return rg__fail(RG_ERR_PEER_LOST, "%s; return this status from fn", why);
}

static rg_status take_piece(rg_state *st, rg__commit_id id, const task *t)
{
    const rg_ctx *ctx = st->ctx;
    uint64_t sum = 0;
    for (int k = 0; k < st->buffers; k++) {
        const rg_status rs = take_slice(ctx, &st->buffer[k], t, &sum);
        if (rs != RG_OK)
            return rs;
    }
    if (!t->verifies ||
        sum == atomic_load(&ctx->vault->slot[t->slot][t->index].sum))
        return RG_OK;
    return is_over(ctx) ? lost() : damaged(st->ctx, id, t);
}

rg_status rg__state_restore(rg_state *st, int slot, rg__commit_id id,
                            bool is_needed)
{
    const rg__membership *now = &st->ctx->now;
    const uint32_t count = atomic_load(&st->ctx->vault->slot[slot][0].count);
    for (uint32_t i = 0; i < count && i < RG__HOST_SLOTS_MAX; i++) {
        const task t = {.copies = is_needed,
                        .verifies = (int)i % now->local_size == now->local_rank,
                        .slot = slot,
                        .index = i,
                        .count = count};
        const rg_status rs =
            t.copies || t.verifies ? take_piece(st, id, &t) : RG_OK;
        if (rs != RG_OK)
            return rs;
    }
    return RG_OK;
}
