/* A stray store changes the id of a commit in the vault's table: what is found
 * under that id is damaged, be it a piece or a shard, though each byte of the
 * memory is as it was saved.
 *
 * Covers: pieces.c state.c */
#include <string.h>

#include "elastic/state/state.h"
#include "tests/check.h"
#include "tests/state/room.h"

#define BYTES ((size_t)1 << 16)

static char replicated[BYTES], sharded[BYTES];
static rg_ctx *ctx;

static rg_status restore(rg_state *st, int slot, rg__commit_id id)
{
    const rg_status rs = rg__state_restore(st, slot, id, true);
    return rs == RG_OK ? rg__state_restore_shard(st, slot, id, true) : rs;
}

/* What is stored in the table instead of a step; the vault as it was, again. */
static void claim_damaged(rg_state *st, int slot, bool of_piece, bool of_shard)
{
    rg__piece *piece = &ctx->vault->slot[slot][0];
    rg__piece *shard = &ctx->vault->shard[slot][0];
    const rg__commit_id id = st->last,
                        other = {id.generation, id.step + (1u << 16)};
    const uint64_t sum = atomic_load(&piece->sum);
    atomic_store(&piece->step, other.step);
    atomic_store(&shard->step, other.step);
    if (!of_piece) { /* the other one is as it would be under that id */
        const rg__part was = {id, 0, 1, 1}, is = {other, 0, 1, 1};
        atomic_store(&piece->sum,
                     sum - rg__part_hash(&was) + rg__part_hash(&is));
    }
    CHECK_STATUS(restore(st, slot, other), RG_ERR_PEER_LOST);
    CHECK(strstr(rg_last_error(), of_shard
                                      ? "shard 0 does not have its checksum"
                                      : "piece 0 does not have its "
                                        "checksum") != NULL);
    atomic_store(&piece->sum, sum);
    atomic_store(&piece->step, id.step);
    atomic_store(&shard->step, id.step);
    atomic_store(&piece->state, RG__PIECE_COMPLETE);
    atomic_store(&shard->state, RG__PIECE_COMPLETE);
    CHECK_OK(restore(st, slot, id));
}

static rg_status train(rg_state *st, void *arg)
{
    (void)arg;
    memset(replicated, 'r', BYTES);
    memset(sharded, 's', BYTES);
    CHECK_OK(rg_state_commit(st));
    claim_damaged(st, st->vault_slot, true, false);
    claim_damaged(st, st->vault_slot, false, true);
    return RG_OK;
}

int main(void)
{
    const rg_buffer_params shards = {.size = sizeof shards, .kind = RG_SHARDED};
    rg_state *st = room_begin(&ctx);
    CHECK_OK(rg_state_add(st, "replicated", replicated, BYTES, NULL));
    CHECK_OK(rg_state_add(st, "sharded", sharded, BYTES, &shards));
    CHECK_OK(rg_run(st, train, NULL));
    room_end(ctx, st);
    return 0;
}
