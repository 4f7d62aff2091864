/* A worker left at commit X by agreement, so that its memory is X. It comes
 * back when the job is at Y, whose copy here is damaged, so that restoring it
 * fails half-way; then the world resumes from X. Memory must be X, without the
 * parts of Y that had arrived.
 *
 * Covers: state.c */
#include <string.h>

#include "elastic/state/state.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define BYTES ((size_t)1 << 20) /* more than one chunk */

static char memory[BYTES];
static rg_ctx *ctx;

static rg__commit_id commit_of(rg_state *st, char letter)
{
    memset(memory, letter, BYTES);
    CHECK_OK(rg_state_commit(st));
    return st->last;
}

static void damage(rg_state *st, rg__commit_id id)
{
    const rg__state_buffer *b = &st->buffer[0];
    const int slot = rg__vault_find(ctx->vault, id);
    b->vault[b->stride * (size_t)slot + BYTES - 1] ^= 4;
}

/* As leaving by agreement at that commit would have it. */
static void be_clean_at(rg_state *st, rg__commit_id id, char letter)
{
    memset(memory, letter, BYTES);
    st->last = id;
    st->is_clean = true;
}

static rg_status sync_from(rg_state *st, rg__commit_id id)
{
    const rg__decided decided = {.generation = 1, .resume = id, .source = -1};
    return rg__state_sync(st, &decided);
}

static rg_status train(rg_state *st, void *arg)
{
    (void)arg;
    const rg__commit_id x = commit_of(st, 'X');
    const rg__commit_id y = commit_of(st, 'Y');
    be_clean_at(st, x, 'X');
    damage(st, y);
    CHECK_STATUS(sync_from(st, y), RG_ERR_PEER_LOST);
    CHECK_EQ(memory[0], 'Y'); /* it failed half-way */
    CHECK_OK(sync_from(st, x));
    CHECK_EQ(memory[0], 'X');
    CHECK_EQ(memory[BYTES - 1], 'X');
    CHECK_EQ(rg_state_step(st), x.step);
    return RG_OK;
}

int main(void)
{
    rg_state *st = room_begin(&ctx);
    CHECK_OK(rg_state_add(st, "memory", memory, BYTES, NULL));
    CHECK_OK(rg_run(st, train, NULL));
    room_end(ctx, st);
    return 0;
}
