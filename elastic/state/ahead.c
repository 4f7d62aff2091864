/* Copying its host's newest commit while a worker has no place in the world
 * yet.  Others train and commit meanwhile, and the vault's slots change under
 * the reader: so it copies a block, hashes its own copy, and notes that hash,
 * which says what is in its memory, torn or not. A restore compares the notes
 * with the hashes of the decided commit's blocks, and copies where they differ.
 * So nothing here needs the writer's consent, and the worst that can happen is
 * that a note comes too late.  A commit may change registered memory only if
 * etcd has on record that there is a commit, and if the worker is no member of
 * the world: then the vault has commits of a later generation than its own. */
#include "elastic/state/state.h"

#include <stdlib.h>

#include "sdk/base/copy.h"
#include "sdk/base/failpoint.h"

_Atomic uint64_t *rg__state_hashes(const rg__state_buffer *b, int slot,
                                   size_t begin, uint32_t index)
{
    const size_t at =
        b->vault == NULL ? 0 : rg__vault_hashes(b->bytes, begin, index);
    return at == 0
               ? NULL
               : (_Atomic uint64_t *)(void *)(b->vault +
                                              b->stride * (size_t)slot + at);
}

static size_t first_hash(const rg__state_buffer *b)
{
    return rg__vault_hashes(b->bytes, 0, 0);
}

static uint64_t *notes_of(const rg__state_buffer *b, size_t begin,
                          uint32_t index)
{
    return b->ahead +
           (rg__vault_hashes(b->bytes, begin, index) - first_hash(b)) /
               sizeof(uint64_t);
}

const uint64_t *rg__state_ahead(const rg__state_buffer *b, size_t begin,
                                uint32_t index)
{
    return b->ahead == NULL ? NULL : notes_of(b, begin, index);
}

void rg__state_forget_ahead(rg_state *state)
{
    for (int k = 0; k < state->buffers; k++) {
        free(state->buffer[k].ahead);
        state->buffer[k].ahead = NULL;
    }
    state->ahead = 0;
}

/* Begin notes about commits that have so many pieces. Only the host's memory is
 * copied ahead: no processor could hash what a device holds. */
static void begin_notes(rg_state *state, uint32_t count)
{
    rg__state_forget_ahead(state);
    for (int k = 0; k < state->buffers; k++) {
        rg__state_buffer *b = &state->buffer[k];
        if (!b->is_sharded && b->data != NULL && b->vault != NULL &&
            first_hash(b) != 0)
            b->ahead = calloc((b->stride - first_hash(b)) / sizeof(uint64_t),
                              sizeof(uint64_t));
    }
    state->ahead = count;
}

/* A slot of the vault whose commit is later than all that this worker has
 * taken part in; -1: none. */
static int newest_slot(const rg_state *state, bool follows)
{
    rg__commit_id newest = {state->ctx->now.generation, UINT64_MAX};
    int found = -1;
    for (int slot = 0; slot < state->slots; slot++) {
        const rg__commit_id id =
            follows ? rg__vault_part_id(state->ctx->vault, slot)
                    : rg__vault_id(state->ctx->vault, slot);
        if (id.generation > newest.generation ||
            (id.generation == newest.generation && found >= 0 &&
             id.step > newest.step)) {
            newest = id;
            found = slot;
        }
    }
    return found;
}

/* Its memory is a checkpoint that the job may have to begin from. */
static bool has_loaded(const rg_state *state)
{
    return state->ctx->now.generation == 0 && state->loaded.name[0] != '\0' &&
           state->due[0] == '\0';
}

/* A pass over all blocks, each from the newest slot. */
typedef struct pass {
    rg_state *state;
    bool follows;
    size_t copied;
} pass;

static void copy_block(pass *p, const rg__state_buffer *b, size_t at,
                       size_t in_slice, size_t n, const char *from,
                       uint64_t *note)
{
    rg__sum own;
    rg__failpoint("ahead", -1, 0, 0);
    *note = 0;
    rg__copy(b->data + at, from + at, n);
    rg__sum_begin(&own, b->name, in_slice, NULL);
    rg__sum_update(&own, b->data + at, n);
    *note = rg__sum_end(&own);
    p->copied += n;
}

static void copy_slice(pass *p, const rg__state_buffer *b, uint32_t index)
{
    rg_ctx *ctx = p->state->ctx;
    size_t begin, end;
    rg__vault_slice(b->bytes, index, p->state->ahead, &begin, &end);
    uint64_t *note = notes_of(b, begin, index);
    for (size_t at = begin, k = 0; at < end; at += RG__BLOCK, k++) {
        const int slot = newest_slot(p->state, p->follows);
        if (slot < 0)
            return;
        const uint64_t there =
            atomic_load(rg__state_hashes(b, slot, begin, index) + k);
        if (there == 0 || there == note[k])
            continue;
        if (!ctx->hooks->waits(ctx))
            return;
        copy_block(p, b, at, at - begin,
                   end - at < RG__BLOCK ? end - at : RG__BLOCK,
                   b->vault + b->stride * (size_t)slot, &note[k]);
    }
}

size_t rg__state_copy_ahead(rg_state *state, bool follows)
{
    const rg_ctx *ctx = state->ctx;
    if (!ctx->has_agent || atomic_load(&ctx->page->begun) == 0 ||
        has_loaded(state))
        return 0;
    const int slot = newest_slot(state, follows);
    const uint32_t count =
        slot < 0 ? 0 : atomic_load(&ctx->vault->slot[slot][0].count);
    if (count == 0 || count > RG__HOST_SLOTS_MAX)
        return 0;
    if (count != state->ahead)
        begin_notes(state, count);
    state->is_clean = false;
    pass p = {.state = state, .follows = follows};
    for (int k = 0; k < state->buffers; k++)
        for (uint32_t i = 0; i < count && state->buffer[k].ahead != NULL; i++)
            copy_slice(&p, &state->buffer[k], i);
    return p.copied;
}
