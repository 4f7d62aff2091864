/* A vault's table of shards is unordered, has leftovers of other commits, and
 * is memory that workers can write: an ack names each shard of the commit that
 * is there once, in order, and nothing else, in a world of any size.
 *
 * Covers: vault.c ack.c */
#include "tests/agent/agents.h"

enum { WORLD = 16384, STEP = 7 };

static void put(rg__agent *a, int at, rg__commit_id id, uint32_t index)
{
    rg__piece *shard = &a->store->vault->shard[0][at];
    const rg__part part = {
        .id = id, .index = index, .count = WORLD, .shards = WORLD};
    rg__piece_begin(shard, &part);
    rg__piece_end(shard, 1);
}

static void put_whole(rg__agent *a, rg__commit_id id)
{
    const rg__part part = {.id = id, .count = 1, .shards = WORLD};
    rg__piece_begin(&a->store->vault->slot[0][0], &part);
    rg__piece_end(&a->store->vault->slot[0][0], 1);
}

int main(void)
{
    const rg__commit_id id = {1, STEP}, older = {1, STEP - 1};
    const uint32_t there[] = {16383, 5, 900, 5 /* twice */, 0};
    const uint32_t want[] = {0, 5, 900, 16383};
    rg__held held[RG__VAULT_SLOTS];
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, 1);
    a->delivered = 1;
    a->life.most_step = STEP;
    put_whole(a, id);
    for (int i = 0; i < 5; i++)
        put(a, 200 * i + 30, id, there[i]);
    put(a, 3, older, 1);
    put(a, 4, id, WORLD); /* that world had no such rank */
    put(a, 5, id, 2);
    rg__piece_empty(&a->store->vault->shard[0][5]);
    CHECK_EQ(rg__vault_held(a, held), 1);
    CHECK_EQ(held[0].here.count, 4);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(held[0].here.index[i], want[i]);
    rg__shards_free(&held[0].here);
    agent_free(a);
    rg__loop_destroy(loop);
    return 0;
}
