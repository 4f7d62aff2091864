/* In a change that was announced, a rank whose memory is the commit reads none
 * of it in the vault, however much there is, and whoever takes it up verifies
 * all that it takes: no other rank does.
 *
 * Covers: pieces.c state.c */
#include <string.h>

#include "elastic/state/state.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define BYTES ((size_t)1 << 16)
#define RANKS 2

static char memory[BYTES];
static rg_ctx *ctx;

static void fill(rg_state *st, int slot, rg__commit_id id)
{
    ctx->now.local_size = RANKS;
    for (ctx->now.local_rank = 0; ctx->now.local_rank < RANKS;
         ctx->now.local_rank++)
        CHECK_OK(rg__state_fill(st, slot, id));
    ctx->now.local_rank = RANKS - 1;
}

static rg_status train(rg_state *st, void *arg)
{
    const rg__state_buffer *b = &st->buffer[0];
    const rg__commit_id id = {ctx->now.generation, 7};
    const int slot = 1; /* the other one holds commit 0 */
    (void)arg;
    ctx->now.is_announced = true;
    for (size_t damaged = 0; damaged < RANKS; damaged++) {
        memset(memory, 'm', BYTES);
        fill(st, slot, id);
        b->vault[b->stride * (size_t)slot + BYTES / RANKS * damaged + 5] ^= 4;
        CHECK_OK(rg__state_restore(st, slot, id, false));
        CHECK_STATUS(rg__state_restore(st, slot, id, true), RG_ERR_PEER_LOST);
    }
    ctx->now.local_rank = 0;
    ctx->now.local_size = 1;
    ctx->now.is_announced = false;
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
