/* Between registered memory and the vault.  Saving: each local rank copies its
 * slice of every replicated buffer, its piece, and its part of every sharded
 * one, its shard, and takes their checksums from the chunks that the cache
 * holds. Restoring: each local rank copies all pieces, and of the shards of the
 * world that made the commit what is its own now. After a loss the ranks of a
 * host share the work of checking pieces against their checksums, and each
 * verifies the shards that it uses. In an announced change only ranks that take
 * a commit up read it, and each verifies all that it takes. No rank enters fn
 * before an agreement that comes after it. A part that is damaged is marked
 * empty and ends the generation, so that the next decision takes it from
 * another host's vault, or resumes from an older commit. */
#include "elastic/state/state.h"

#include <stdio.h>

#include "sdk/base/fail.h"
#include "sdk/base/failpoint.h"
#include "sdk/base/hash.h"
#include "sdk/base/shm.h"
#include "sdk/base/stream.h"

#define CHUNK RG__BLOCK /* copied under the gate at a time */

static rg_status lost(void)
{
    return rg__fail(RG_ERR_PEER_LOST, "a peer is lost and the generation has "
                                      "ended; return this status from fn");
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

/* Where a slice's pieces go; without a vault they are only hashed. */
typedef struct saving {
    rg_ctx *ctx;
    char *to; /* of the next piece, NULL: no vault */
    rg__sum sum;
} saving;

/* Copy under the gate, so that leaving waits for one chunk at most. */
static rg_status copy_in(rg_ctx *ctx, char *to, const char *from, size_t bytes,
                         rg__sum *sum)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = chunk(bytes - at);
        if (is_over(ctx))
            return lost();
        pthread_mutex_lock(&ctx->gate);
        const bool open = ctx->gate_generation == ctx->now.generation;
        if (open && to != NULL)
            rg__stream(to + at, from + at, n);
        if (open)
            rg__sum_update(sum, from + at, n);
        pthread_mutex_unlock(&ctx->gate);
        if (!open)
            return lost();
    }
    return RG_OK;
}

static rg_status save_piece(void *arg, const char *bytes, size_t n)
{
    saving *s = arg;
    const rg_status st = copy_in(s->ctx, s->to, bytes, n, &s->sum);
    if (s->to != NULL)
        s->to += n;
    return st;
}

static rg_status begin_piece(rg_ctx *ctx, rg__piece *piece,
                             const rg__part *part)
{
    pthread_mutex_lock(&ctx->gate);
    const bool open = ctx->gate_generation == ctx->now.generation;
    if (open)
        rg__piece_begin(piece, part);
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

void rg__state_slice(const rg__state_buffer *b, uint32_t rank, uint32_t size,
                     size_t *begin_p, size_t *end_p)
{
    *begin_p = 0;
    *end_p = b->bytes;
    if (b->is_sharded && !b->is_local)
        rg__slice(b->bytes, b->align, rank, size, begin_p, end_p);
}

/* Bytes [begin, end) of a buffer, its slice in the part with that index. */
typedef struct range {
    size_t begin, end;
    uint32_t index;
} range;

/* The range of a buffer that belongs to a piece, or to a shard; empty for the
 * other kind of buffer, and for a local one, which lies in cells. */
static range slice_of(const rg__state_buffer *b, bool is_shard,
                      const rg__part *part)
{
    range r = {.index = part->index};
    if (b->is_local)
        return r;
    if (is_shard && b->is_sharded)
        rg__state_slice(b, part->index, part->count, &r.begin, &r.end);
    else if (!is_shard && !b->is_sharded)
        rg__vault_slice(b->bytes, part->index, part->count, &r.begin, &r.end);
    return r;
}

/* Hashes of a slice's blocks are in the vault when the blocks are. */
static rg_status begin_hashes(rg_ctx *ctx, _Atomic uint64_t *hashes,
                              size_t bytes)
{
    pthread_mutex_lock(&ctx->gate);
    const bool open = ctx->gate_generation == ctx->now.generation;
    for (size_t at = 0; at < bytes && open && hashes != NULL; at += RG__BLOCK)
        atomic_store(hashes++, 0);
    pthread_mutex_unlock(&ctx->gate);
    return open ? RG_OK : lost();
}

/* The hash of a slice is added to the part's sum. */
static rg_status end_slice(saving *s, rg__state_buffer *b, uint64_t *sum)
{
    rg_ctx *ctx = s->ctx;
    pthread_mutex_lock(&ctx->gate);
    const bool open = ctx->gate_generation == ctx->now.generation;
    const uint64_t value = open ? rg__sum_end(&s->sum) : 0;
    pthread_mutex_unlock(&ctx->gate);
    if (!open)
        return lost();
    rg__state_note_slice(b, value);
    *sum += value;
    return RG_OK;
}

/* A slice into the vault. */
static rg_status save_slice(rg_ctx *ctx, rg__state_buffer *b, int slot,
                            const range *r, uint64_t *sum)
{
    saving s = {.ctx = ctx};
    _Atomic uint64_t *hashes =
        b->is_sharded ? NULL : rg__state_hashes(b, slot, r->begin, r->index);
    if (r->begin == r->end)
        return RG_OK;
    if (b->vault != NULL)
        s.to = b->vault + b->stride * (size_t)slot + r->begin;
    rg__sum_begin(&s.sum, b->name, 0, hashes);
    rg_status st = begin_hashes(ctx, hashes, r->end - r->begin);
    if (st == RG_OK)
        st = rg__state_read(b, r->begin, r->end, save_piece, &s);
    return st == RG_OK ? end_slice(&s, b, sum) : st;
}

/* The same of a local buffer: its head, and all of this rank's bytes. */
static rg_status save_cell(rg_ctx *ctx, rg__state_buffer *b, int slot,
                           uint64_t *sum)
{
    saving s = {.ctx = ctx, .to = b->cell[slot]};
    const rg__cell head = {.bytes = b->bytes};
    rg__sum_begin(&s.sum, b->name, 0, NULL);
    rg_status st = save_piece(&s, (const char *)&head, sizeof head);
    if (st == RG_OK)
        st = rg__state_read(b, 0, b->bytes, save_piece, &s);
    return st == RG_OK ? end_slice(&s, b, sum) : st;
}

static rg_status save_slices(rg_state *state, int slot, bool is_shard,
                             const rg__part *part, uint64_t *sum)
{
    rg_ctx *ctx = state->ctx;
    rg_status st = RG_OK;
    *sum = rg__part_hash(part);
    for (int k = 0; k < state->buffers && st == RG_OK; k++) {
        rg__state_buffer *b = &state->buffer[k];
        const range r = slice_of(b, is_shard, part);
        rg__failpoint("commit.copy", ctx->now.rank, part->id.step,
                      ctx->now.generation);
        st = b->is_local && is_shard ? save_cell(ctx, b, slot, sum)
                                     : save_slice(ctx, b, slot, &r, sum);
    }
    return st;
}

static rg_status save_part(rg_state *state, int slot, rg__piece *piece,
                           bool is_shard, const rg__part *part)
{
    uint64_t sum = 0;
    rg_status st = begin_piece(state->ctx, piece, part);
    if (st == RG_OK)
        st = save_slices(state, slot, is_shard, part, &sum);
    return st == RG_OK ? end_piece(state->ctx, piece, sum) : st;
}

/* This rank's piece and shard of a commit. */
typedef struct own_parts {
    rg__part piece, shard;
} own_parts;

static own_parts parts_of(const rg_state *state, rg__commit_id id)
{
    const rg__membership *now = &state->ctx->now;
    return (own_parts){
        .piece = {.id = id,
                  .index = (uint32_t)now->local_rank,
                  .count = (uint32_t)now->local_size,
                  .shards = state->has_shards ? (uint32_t)now->size : 0},
        .shard = {.id = id,
                  .index = (uint32_t)now->rank,
                  .count = (uint32_t)now->size}};
}

rg_status rg__state_fill(rg_state *state, int slot, rg__commit_id id)
{
    const int local_rank = state->ctx->now.local_rank;
    rg__vault *vault = state->ctx->vault;
    const own_parts own = parts_of(state, id);
    const rg_status st = save_part(state, slot, &vault->slot[slot][local_rank],
                                   false, &own.piece);
    if (st != RG_OK || !state->has_shards)
        return st;
    return save_part(state, slot, &vault->shard[slot][local_rank], true,
                     &own.shard);
}

bool rg__state_is_unchanged(rg_state *state)
{
    const int local_rank = state->ctx->now.local_rank, slot = state->vault_slot;
    const rg__vault *vault = state->ctx->vault;
    const own_parts own = parts_of(state, state->last);
    uint64_t piece = 0, shard = 0;
    return save_slices(state, slot, false, &own.piece, &piece) == RG_OK &&
           piece == atomic_load(&vault->slot[slot][local_rank].sum) &&
           (!state->has_shards ||
            (save_slices(state, slot, true, &own.shard, &shard) == RG_OK &&
             shard == atomic_load(&vault->shard[slot][local_rank].sum)));
}

rg_status rg__state_spoil(rg_state *state, int slot)
{
    rg_ctx *ctx = state->ctx;
    const rg__part nothing = {.index = (uint32_t)ctx->now.local_rank};
    return begin_piece(ctx, &ctx->vault->slot[slot][ctx->now.local_rank],
                       &nothing);
}

/* ----------------------------------------------------------------- restore */

/* What a rank does with a part of a commit in the vault. */
typedef struct task {
    int slot;
    rg__piece *piece;
    bool is_shard;
    rg__part part;
    bool copies, verifies;
    bool skips;          /* blocks that were copied ahead */
    uint32_t rank, size; /* which of these a shard's bytes are copied for */
} task;

/* [*begin_p, *end_p) becomes its intersection with [begin, end). */
static void intersect(size_t begin, size_t end, size_t *begin_p, size_t *end_p)
{
    *begin_p = *begin_p > begin ? *begin_p : begin;
    *end_p = *end_p < end ? *end_p : end;
    if (*begin_p > *end_p)
        *begin_p = *end_p;
}

static rg_status take_chunk(const rg__state_buffer *b, const char *vault,
                            size_t at, size_t n, const task *t, rg__sum *sum)
{
    size_t begin = 0, end = t->copies ? b->bytes : 0;
    if (t->copies && t->is_shard)
        rg__state_slice(b, t->rank, t->size, &begin, &end);
    intersect(at, at + n, &begin, &end);
    const rg_status st = rg__state_write(b, begin, vault + begin, end - begin);
    if (t->verifies)
        rg__sum_update(sum, vault + at, n);
    return st;
}

/* Block by block, but for those that were copied ahead. */
static rg_status take_slice(rg_state *state, const rg__state_buffer *b,
                            const task *t, uint64_t *sum)
{
    const char *vault = b->vault + b->stride * (size_t)t->slot;
    const range r = slice_of(b, t->is_shard, &t->part);
    const uint64_t *ahead =
        t->skips ? rg__state_ahead(b, r.begin, r.index) : NULL;
    const _Atomic uint64_t *hashes =
        ahead != NULL ? rg__state_hashes(b, t->slot, r.begin, r.index) : NULL;
    for (size_t at = r.begin, k = 0, n; at < r.end; at += n, k++) {
        rg__sum block;
        n = chunk(r.end - at);
        if (is_over(state->ctx))
            return lost();
        if (ahead != NULL && ahead[k] != 0 &&
            ahead[k] == atomic_load(&hashes[k])) {
            *sum += ahead[k];
            state->was_here += n;
            continue;
        }
        rg__sum_begin(&block, b->name, at - r.begin, NULL);
        const rg_status st = take_chunk(b, vault, at, n, t, &block);
        if (st != RG_OK)
            return st;
        *sum += rg__sum_end(&block);
    }
    return RG_OK;
}

/* This rank's own part as registered, if the task copies. */
static bool copies_cell(const rg__state_buffer *b, const task *t, size_t bytes)
{
    return t->copies && t->part.index == t->rank && t->part.count == t->size &&
           bytes == b->bytes;
}

static rg_status take_cell(const rg_ctx *ctx, const rg__state_buffer *b,
                           const task *t, uint64_t *sum)
{
    rg__state_cell cell;
    rg__sum own;
    rg_status st = rg__state_open_cell(b, t->slot, t->part.index, &cell);
    if (st != RG_OK)
        return st;
    const char *from = cell.at + sizeof(rg__cell);
    const bool copies = copies_cell(b, t, cell.bytes);
    rg__sum_begin(&own, b->name, 0, NULL);
    rg__sum_update(&own, cell.at, sizeof(rg__cell));
    for (size_t at = 0, n; at < cell.bytes && st == RG_OK; at += n) {
        n = chunk(cell.bytes - at);
        if (is_over(ctx))
            st = lost();
        else if (copies)
            st = rg__state_write(b, at, from + at, n);
        rg__sum_update(&own, from + at, n);
    }
    rg__state_close_cell(&cell);
    *sum += rg__sum_end(&own);
    return st;
}

/* Once the generation is left the slot may belong to another commit. */
static void empty_piece(rg_ctx *ctx, rg__piece *piece)
{
    pthread_mutex_lock(&ctx->gate);
    if (ctx->gate_generation == ctx->now.generation)
        rg__piece_empty(piece);
    pthread_mutex_unlock(&ctx->gate);
}

static rg_status damaged(rg_ctx *ctx, const task *t)
{
    char why[RG__TEXT_MAX];
    snprintf(why, sizeof why,
             "commit %llu.%llu in the vault of host %s is damaged: %s %u does "
             "not have its checksum",
             (unsigned long long)t->part.id.generation,
             (unsigned long long)t->part.id.step, ctx->host,
             t->is_shard ? "shard" : "piece", t->part.index);
    empty_piece(ctx, t->piece);
    ctx->hooks->broken(ctx, ctx->now.generation, why);
    return rg__fail(RG_ERR_PEER_LOST, "%s; return this status from fn", why);
}

static rg_status take_part(rg_state *state, const task *t)
{
    const rg_ctx *ctx = state->ctx;
    const uint64_t was_here = state->was_here;
    uint64_t sum = rg__part_hash(&t->part);
    for (int k = 0; k < state->buffers; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        const rg_status st = b->is_local && t->is_shard
                                 ? take_cell(ctx, b, t, &sum)
                                 : take_slice(state, b, t, &sum);
        if (st == RG_ERR_DAMAGED) /* the length of a cell */
            return is_over(ctx) ? lost() : damaged(state->ctx, t);
        if (st != RG_OK)
            return st;
    }
    const rg_status st = t->copies ? rg__state_flush(state) : RG_OK;
    if (st != RG_OK)
        return st;
    if (!t->verifies || sum == atomic_load(&t->piece->sum))
        return RG_OK;
    if (is_over(ctx))
        return lost();
    if (!t->skips)
        return damaged(state->ctx, t);
    task all = *t; /* a hash in the vault may be wrong, and not the block */
    all.skips = false;
    state->was_here = was_here;
    return take_part(state, &all);
}

/* Piece i; the ranks of a host may be fewer than those that made it. */
static bool verifies(const rg__membership *now, uint32_t i, bool is_needed)
{
    const bool is_my_share = (int)i % now->local_size == now->local_rank;
    return now->is_announced ? is_needed : is_my_share;
}

/* Others take piece i unverified: notes of this rank's copy don't vouch for
 * it. */
static bool is_relied_on(const rg__membership *now, uint32_t i)
{
    return !now->is_announced && now->local_size > 1 && verifies(now, i, true);
}

rg_status rg__state_restore(rg_state *state, int slot, rg__commit_id id,
                            bool is_needed)
{
    const rg__membership *now = &state->ctx->now;
    rg__piece *piece = state->ctx->vault->slot[slot];
    const uint32_t count = atomic_load(&piece->count);
    const bool has_notes = is_needed && count != 0 && count == state->ahead;
    state->was_here = 0;
    rg_status st = RG_OK;
    for (uint32_t i = 0; i < count && i < RG__HOST_SLOTS_MAX && st == RG_OK;
         i++) {
        const bool skips = has_notes && !is_relied_on(now, i);
        const task t = {.slot = slot,
                        .piece = &piece[i],
                        .part = {.id = id,
                                 .index = i,
                                 .count = count,
                                 .shards = atomic_load(&piece[i].shards)},
                        .copies = is_needed,
                        .verifies = skips || verifies(now, i, is_needed),
                        .skips = skips};
        if (t.copies || t.verifies)
            st = take_part(state, &t);
    }
    return st;
}

/* ----------------------------------------------------------------- a shard */

/* Does the shard contain any of this rank's part of a sharded buffer? If the
 * number of ranks has changed, all ranks need any part of local ones. */
static bool is_mine(const rg_state *state, const rg__part *shard)
{
    const rg__membership *now = &state->ctx->now;
    if (state->has_local && (shard->count != (uint32_t)now->size ||
                             shard->index == (uint32_t)now->rank))
        return true;
    for (int k = 0; k < state->buffers; k++) {
        const rg__state_buffer *b = &state->buffer[k];
        size_t begin, end, b0, e0;
        if (!b->is_sharded || b->is_local)
            continue;
        rg__state_slice(b, (uint32_t)now->rank, (uint32_t)now->size, &begin,
                        &end);
        rg__state_slice(b, shard->index, shard->count, &b0, &e0);
        intersect(b0, e0, &begin, &end);
        if (begin < end)
            return true;
    }
    return false;
}

static rg_status take_shard(rg_state *state, int slot, const rg__part *part,
                            bool is_needed)
{
    const rg__membership *now = &state->ctx->now;
    const task t = {.slot = slot,
                    .piece = rg__vault_shard(state->ctx->vault, slot, part->id,
                                             part->index),
                    .is_shard = true,
                    .part = *part,
                    .copies = is_needed,
                    .verifies = true,
                    .rank = (uint32_t)now->rank,
                    .size = (uint32_t)now->size};
    if (t.piece != NULL)
        return take_part(state, &t);
    return rg__fail(RG_ERR_PEER_LOST,
                    "the vault of host %s no longer holds shard %u of commit "
                    "%llu.%llu; return this status from fn",
                    state->ctx->host, part->index,
                    (unsigned long long)part->id.generation,
                    (unsigned long long)part->id.step);
}

rg_status rg__state_restore_shard(rg_state *state, int slot, rg__commit_id id,
                                  bool is_needed)
{
    const rg__piece *piece = state->ctx->vault->slot[slot];
    rg__part part = {.id = id, .count = atomic_load(&piece->shards)};
    rg_status st = part.count <= RG__WORLD_MAX ? RG_OK : lost();
    if (state->ctx->now.is_announced && !is_needed)
        return st;
    for (; part.index < part.count && st == RG_OK; part.index++)
        if (is_mine(state, &part))
            st = take_shard(state, slot, &part, is_needed);
    return st;
}

rg_status rg__state_reserve_shard(rg_state *state)
{
    const rg__membership *now = &state->ctx->now;
    rg_status st = RG_OK;
    for (int k = 0; k < state->buffers && st == RG_OK; k++) {
        rg__state_buffer *b = &state->buffer[k];
        size_t begin, end;
        if (!b->is_sharded || b->fd < 0)
            continue;
        if (b->is_local) {
            st = rg__state_reserve_cell(state, b);
            continue;
        }
        rg__state_slice(b, (uint32_t)now->rank, (uint32_t)now->size, &begin,
                        &end);
        for (int i = 0; begin < end && i < state->slots && st == RG_OK; i++)
            st = rg__shm_reserve(b->fd, b->name,
                                 b->place + b->stride * (size_t)i + begin,
                                 end - begin);
    }
    return st;
}
