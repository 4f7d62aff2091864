/* The checkpoints of a world without agents: a worker alone, or the ranks of an
 * mpirun of its own. There is no vault, and so no agent that could write while
 * steps go on: the ranks write registered memory before the commit returns.
 * Rank 0 writes the head and what is replicated, and each rank with shards or
 * local buffers a file of its own beside it. Rank 0 begins, all write, and once
 * all files are on the disk, rank 0 completes and seals it. */
#include "elastic/state/state.h"

#include <stdlib.h>
#include <string.h>

#include "elastic/state/checkpoint_dir.h"
#include "process_sets/sets.h"
#include "sdk/base/fail.h"

#define WRITING "writing a checkpoint"

typedef struct world_write {
    rg_state *state;
    const char *dir;
    rg__checkpoint c;
    const void **data; /* of each piece; NULL: another rank's, or a device's */
    uint64_t *bytes;   /* of each rank's part of each local buffer */
    uint32_t file;     /* this rank's; 0: the one with the head, or none */
} world_write;

/* ------------------------------------------------------------------ layout */

/* All local buffers of each rank, one after the other. */
static rg_status gather_bytes(world_write *w)
{
    const rg_state *state = w->state;
    const int size = state->ctx->now.size, n = state->buffers;
    uint64_t *mine = calloc((size_t)n + 1, sizeof *mine);
    w->bytes = calloc((size_t)n * (size_t)size + 1, sizeof *w->bytes);
    rg_status st = mine == NULL || w->bytes == NULL
                       ? rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint")
                       : RG_OK;
    for (int k = 0; k < n && st == RG_OK; k++)
        mine[k] = state->buffer[k].bytes;
    if (st == RG_OK)
        st = rg__world_gather(state->ctx, WRITING, mine, w->bytes,
                              sizeof *mine * (size_t)n, size);
    free(mine);
    return st;
}

static rg_status add_local(world_write *w, int k)
{
    const rg_state *state = w->state;
    const uint32_t size = (uint32_t)state->ctx->now.size;
    rg__checkpoint *c = &w->c;
    const rg_status st =
        rg__checkpoint_add_local(c, state->buffer[k].name, NULL, size);
    for (uint32_t r = 0; r < size && st == RG_OK; r++)
        c->piece[c->pieces - size + r].bytes =
            w->bytes[r * (uint32_t)state->buffers + (uint32_t)k];
    return st;
}

static rg_status add_buffer(world_write *w, int k)
{
    const rg__state_buffer *b = &w->state->buffer[k];
    if (b->is_local)
        return add_local(w, k);
    if (b->is_sharded)
        return rg__checkpoint_add_sharded(&w->c, b->name, b->bytes, b->align,
                                          (uint32_t)w->state->ctx->now.size);
    return rg__checkpoint_add(&w->c, b->name, b->bytes);
}

/* The rank that has a piece. A shard without bytes has none. */
static uint32_t owner_of(const world_write *w, uint32_t i)
{
    const rg__checkpoint_piece *p = &w->c.piece[i];
    const rg__state_buffer *b = &w->state->buffer[p->buffer];
    uint32_t r = 0;
    size_t begin = 0, end = 0;
    if (!b->is_sharded)
        return 0;
    if (b->is_local) {
        while (r < i && w->c.piece[i - r - 1].buffer == p->buffer)
            r++;
        return r;
    }
    for (;; r++) {
        rg__state_slice(b, r, (uint32_t)w->state->ctx->now.size, &begin, &end);
        if (begin < end && begin == p->begin)
            return r;
    }
}

/* Where in this rank's memory of the buffer a piece's bytes begin. */
static size_t begin_of(const world_write *w, uint32_t i)
{
    const rg__checkpoint_piece *p = &w->c.piece[i];
    return w->state->buffer[p->buffer].is_local ? 0 : p->begin;
}

static void take_piece(world_write *w, uint32_t i)
{
    const rg__state_buffer *b = &w->state->buffer[w->c.piece[i].buffer];
    w->file = w->c.piece[i].file;
    if (b->data != NULL)
        w->data[i] = b->data + begin_of(w, i);
}

/* Files are numbered in the order of their first pieces. */
static rg_status give_files(world_write *w)
{
    const int size = w->state->ctx->now.size;
    uint32_t *file = calloc((size_t)size, sizeof *file);
    w->data = calloc((size_t)w->c.pieces + 1, sizeof *w->data);
    if (file == NULL || w->data == NULL) {
        free(file);
        return rg__fail(RG_ERR_MEMORY, "no memory for a checkpoint");
    }
    for (uint32_t i = 0; i < w->c.pieces; i++) {
        const uint32_t r = owner_of(w, i);
        if (r > 0 && file[r] == 0)
            file[r] = ++w->c.files;
        w->c.piece[i].file = file[r];
        if ((int)r == w->state->ctx->now.rank)
            take_piece(w, i);
    }
    free(file);
    return RG_OK;
}

static rg_status describe(world_write *w)
{
    rg_state *state = w->state;
    rg_status st = RG_OK;
    for (int k = 0; k < state->buffers && st == RG_OK; k++)
        st = add_buffer(w, k);
    if (st == RG_OK)
        st = give_files(w);
    if (st == RG_OK)
        st = rg__checkpoint_sign(&w->c, state->ctx->job, state->ctx->host);
    w->c.id = state->last;
    w->c.world_size = (uint32_t)state->ctx->now.size;
    rg__checkpoint_lay_out(&w->c);
    return st;
}

/* ----------------------------------------------------------------- writing */

static rg_status fill(void *arg, uint32_t i, uint64_t at, void *to, size_t n)
{
    const world_write *w = arg;
    const size_t begin = begin_of(w, i) + at;
    return rg__state_copy_out(&w->state->buffer[w->c.piece[i].buffer], begin,
                              begin + n, to);
}

static rg__checkpoint_writing writing_of(world_write *w)
{
    return (rg__checkpoint_writing){.dir = w->dir,
                                    .checkpoint = &w->c,
                                    .data = w->data,
                                    .fill = fill,
                                    .arg = w};
}

/* What rank 0 broadcasts, even if it failed. */
typedef struct word {
    int32_t status;
    uint64_t serial;
    char op[RG__CHECKPOINT_OP];
} word;

static rg_status begin(world_write *w, rg_status mine)
{
    rg_ctx *ctx = w->state->ctx;
    const rg__checkpoint_writing writing = writing_of(w);
    word said = {.status = mine};
    if (ctx->now.rank == 0 && mine == RG_OK) {
        rg_status st = rg__checkpoint_next(
            w->dir, rg__state_known(w->state, w->dir), &w->c.serial);
        if (st == RG_OK)
            st = rg__checkpoint_begin(&writing);
        said = (word){.status = st, .serial = w->c.serial};
        memcpy(said.op, w->c.op, sizeof said.op);
    }
    const rg_status st = rg__world_broadcast(ctx, &said, sizeof said, 0);
    if (st != RG_OK || said.status != RG_OK || ctx->now.rank == 0)
        return st != RG_OK ? st : (rg_status)said.status;
    w->c.serial = said.serial;
    memcpy(w->c.op, said.op, sizeof said.op);
    return mine;
}

/* OK on all ranks or on none. *shared_p: another rank failed, not this one. */
static rg_status agree(const world_write *w, rg_status mine, bool *elsewhere_p)
{
    const int64_t in[4] = {mine != RG_OK};
    int64_t out[4];
    const rg_status st =
        rg__world_agree(w->state->ctx, WRITING, RG__STATE_AGREE_WRITE, in, out);
    *elsewhere_p = st == RG_OK && mine == RG_OK && out[0] != 0;
    if (st != RG_OK)
        return st;
    return *elsewhere_p ? rg__fail(RG_ERR_SYSTEM,
                                   "another rank has not written its part of a "
                                   "checkpoint in %s; its own error says why",
                                   w->dir)
                        : mine;
}

static rg_status put(world_write *w)
{
    const rg__checkpoint_writing writing = writing_of(w);
    if (w->state->ctx->now.rank == 0)
        return rg__checkpoint_put(&writing);
    return w->file == 0 ? RG_OK : rg__checkpoint_put_file(&writing, w->file);
}

static rg_status end(world_write *w, int keep)
{
    const rg__checkpoint_writing writing = writing_of(w);
    if (w->state->ctx->now.rank != 0)
        return RG_OK;
    const rg_status st = rg__checkpoint_end(&writing);
    return st == RG_OK ? rg__checkpoint_seal(w->dir, &w->c, keep) : st;
}

static rg_status write_all(world_write *w, int keep, bool *elsewhere_p)
{
    rg_status st = w->state->has_local ? gather_bytes(w) : RG_OK;
    if (st != RG_OK)
        return st;
    st = begin(w, describe(w));
    const bool is_begun = st == RG_OK;
    st = agree(w, st == RG_OK ? put(w) : st, elsewhere_p);
    if (st == RG_OK)
        st = agree(w, end(w, keep), elsewhere_p);
    if (st != RG_OK && is_begun && w->state->ctx->now.rank == 0)
        rg__checkpoint_drop(w->dir, &w->c);
    return st;
}

rg_status rg__state_write_world(rg_state *state, const char *dir, int keep,
                                bool *elsewhere_p)
{
    world_write w = {.state = state, .dir = dir};
    *elsewhere_p = false;
    const rg_status st = write_all(&w, keep, elsewhere_p);
    if (st == RG_OK) {
        rg__state_know(state, dir, w.c.serial);
        atomic_store(&state->ctx->page->saved, w.c.id.step + 1);
    }
    free(w.data);
    free(w.bytes);
    rg__checkpoint_close(&w.c);
    return st;
}
