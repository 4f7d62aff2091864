/* A commit that four ranks of a host have made is restored by one: it holds all
 * four pieces against their checksums, whichever is damaged.
 *
 * Covers: pieces.c state.c */
#include <string.h>

#include "elastic/state/state.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define BYTES ((size_t)1 << 16)
#define RANKS 4

static char memory[BYTES];
static rg_ctx *ctx;

/* Each of the host's ranks in turn. */
static void fill(rg_state *st, int slot, rg__commit_id id)
{
    ctx->now.local_size = RANKS;
    for (ctx->now.local_rank = 0; ctx->now.local_rank < RANKS;
         ctx->now.local_rank++)
        CHECK_OK(rg__state_fill(st, slot, id));
    ctx->now.local_rank = 0;
    ctx->now.local_size = 1;
}

static rg_status train(rg_state *st, void *arg)
{
    const rg__state_buffer *b = &st->buffer[0];
    const rg__commit_id id = {ctx->now.generation, 7};
    const int slot = 1; /* the other one holds commit 0 */
    (void)arg;
    for (size_t damaged = 0; damaged < RANKS; damaged++) {
        memset(memory, 'm', BYTES);
        fill(st, slot, id);
        CHECK_OK(rg__state_restore(st, slot, id, false));
        b->vault[b->stride * (size_t)slot + BYTES / RANKS * damaged + 5] ^= 4;
        CHECK_STATUS(rg__state_restore(st, slot, id, false), RG_ERR_PEER_LOST);
    }
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
