/* A commit is copied whole from one vault into another, whatever the number of
 * its pieces and the sizes of its buffers, and not over the newest whole commit
 * on the lineage that the receiver has.
 *
 * Covers: vault.c */
#include "tests/agent/agents.h"

#define LARGE (((uint64_t)3 << 20) + 5) /* several frames, and an odd end */

static const rg__commit_id older = {1, 4}, stray = {1, 9}, resume = {2, 7};

static void add_buffers(rg__agent *a)
{
    vault_add(a, "weights", LARGE);
    vault_add(a, "n", 8); /* fewer lines than pieces */
    vault_add(a, "optimizer", 70000);
}

static void check_copy(uint32_t pieces, int kept)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *from = agent_make_patient(loop, 1),
              *to = agent_make_patient(loop, 2);
    add_buffers(from);
    add_buffers(to);
    vault_commit(from, 1, resume, pieces);
    vault_commit(to, kept, older, 2);
    vault_commit(to, 1 - kept, stray, 1); /* newer, and off the lineage */
    decide_before(to, 1, (rg__commit_id){0, 0});
    decide_before(to, 2, older);
    decide(to, from, 3, resume);
    loop_until(loop, is_copied, to);
    CHECK_STR(newest_reason(to)->text, "");
    CHECK(vault_has(to, 1 - kept, resume));
    CHECK(vault_has(to, kept, older));
    agent_free(from);
    agent_free(to);
    rg__loop_destroy(loop);
}

/* A host that has never had a worker of the program gets its buffers too. */
static void check_copy_into_nothing(void)
{
    rg__loop *loop = NULL;
    CHECK_OK(rg__loop_create(&loop));
    rg__agent *from = agent_make_patient(loop, 1),
              *to = agent_make_patient(loop, 2);
    add_buffers(from);
    vault_commit(from, 0, resume, 2);
    decide_before(to, 2, older);
    decide(to, from, 3, resume);
    loop_until(loop, is_copied, to);
    CHECK(vault_has(to, 0, resume));
    agent_free(from);
    agent_free(to);
    rg__loop_destroy(loop);
}

int main(void)
{
    for (uint32_t pieces = 1; pieces <= RG__HOST_SLOTS_MAX; pieces *= 4)
        check_copy(pieces, (int)(pieces % 3 == 1));
    check_copy_into_nothing();
    return 0;
}
