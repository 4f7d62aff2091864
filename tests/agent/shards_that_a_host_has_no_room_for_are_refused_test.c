/* One host may be all that is left of a world, and then needs the shards of all
 * its workers: a world that could have more than a vault has places for is told
 * so when a program registers a sharded buffer, not when hosts are lost.
 *
 * Covers: replication.c */
#include "tests/agent/agents.h"

#include <string.h>

int main(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *a = agent_make(loop, 1);
    rg__register m = {.bytes = 4096,
                      .slots = RG__VAULT_SLOTS,
                      .is_sharded = 1,
                      .replicas = 1,
                      .align = 8,
                      .name = "moments"};
    int index = -1;
    a->own.max = RG__FOREIGN_SHARDS_MAX + 1;
    CHECK_EQ(rg__vault_room(a, &m, &index), RG_ERR_INVALID);
    CHECK(strstr(rg_last_error(), "moments") != NULL);
    CHECK(strstr(rg_last_error(), "--max is 1025") != NULL);
    m.is_sharded = 0;
    CHECK_OK(rg__vault_room(a, &m, &index));
    a->own.max = RG__FOREIGN_SHARDS_MAX;
    m.is_sharded = 1;
    strcpy(m.name, "other");
    CHECK_OK(rg__vault_room(a, &m, &index));
    agent_free(a);
    rg__loop_destroy(loop);
    return 0;
}
