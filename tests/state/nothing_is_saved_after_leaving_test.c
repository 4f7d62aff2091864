/* Once the Regroup thread has left a generation, a user thread that is in the
 * middle of a commit changes no byte of the vault: another generation may have
 * resumed from what lies there. No abort word says so here, only the gate.
 *
 * Covers: state.c thread.c */
#include <string.h>

#include "elastic/state/state.h"
#include "elastic/worker/worker.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define BYTES ((size_t)1 << 20)

static char memory[BYTES];
static rg_ctx *ctx;

static rg_status train(rg_state *st, void *arg)
{
    const rg__state_buffer *b = &st->buffer[0];
    const rg__commit_id before = st->last;
    const int slot = st->vault_slot;
    (void)arg;
    memset(memory, 'n', BYTES);
    rg__worker_stop_thread(ctx->worker); /* it leaves what it has entered */
    const rg__commit_id next = {before.generation, before.step + 1};
    CHECK_STATUS(rg__state_fill(st, slot, next), RG_ERR_PEER_LOST);
    CHECK(rg__same_commit(rg__vault_id(ctx->vault, slot), before));
    for (size_t i = 0; i < BYTES; i++)
        CHECK_EQ(b->vault[b->stride * (size_t)slot + i], 'o');
    return RG_OK;
}

int main(void)
{
    memset(memory, 'o', BYTES);
    rg_state *st = room_begin(&ctx);
    CHECK_OK(rg_state_add(st, "memory", memory, BYTES, NULL));
    CHECK_STATUS(rg_run(st, train, NULL), RG_ERR_INVALID); /* it has left */
    room_end(ctx, st);
    return 0;
}
